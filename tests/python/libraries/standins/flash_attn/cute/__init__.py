import os

__version__ = os.environ.get("STANDIN_VERSION", "0.1.0")
