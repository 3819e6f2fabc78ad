"""The stored table of hits is what the rules say of the stored logs."""

import pytest

from tests.logs.hits import HERE, judged, page


@pytest.mark.skipif(not (HERE / "hits.md").exists(), reason="no table of hits is stored: python -m tests.logs.hits")
def test_the_table_of_hits_is_up_to_date():
    found = judged()
    assert (HERE / "hits.md").read_text(encoding="utf-8") == page(found), "python -m tests.logs.hits"
    tuned = [one for one in found if one["half"] == "tuning"]
    assert tuned and {one["verdict"] for one in tuned} == {"hit", "quiet"}
