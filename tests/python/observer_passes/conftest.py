"""The observer's fixtures. This folder has its own process, because a process names 31 models and these tests make that
many."""

import importlib.util
import sys
from pathlib import Path

OBSERVER = Path(__file__).resolve().parents[1] / "observer"
sys.path.insert(0, str(OBSERVER))
specification = importlib.util.spec_from_file_location("observer_fixtures", OBSERVER / "conftest.py")
fixtures = importlib.util.module_from_spec(specification)
specification.loader.exec_module(fixtures)
observer, count, oracle, seeded = fixtures.observer, fixtures.count, fixtures.oracle, fixtures.seeded
