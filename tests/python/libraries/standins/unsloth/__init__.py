import os

__version__ = os.environ.get("STANDIN_VERSION", "2025.9.1")
