"""No network, no telemetry: said before anything from Hugging Face is imported."""

import os

os.environ |= dict(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", HF_DATASETS_OFFLINE="1")
