"""Every bound of the sources on exact models: what it promises beside what is true."""
