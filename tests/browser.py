"""A real browser for the tests: Chromium through its own driver, which speaks W3C WebDriver over HTTP on loopback."""

import base64
import contextlib
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def available():
    return all(shutil.which(name) for name in ("chromium", "chromedriver"))


class Browser:
    def __init__(self, driver, session):
        self.driver, self.session = driver, session

    def call(self, method, path, body=None):
        payload = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(
            f"{self.driver}/session/{self.session}{path}", payload, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"].splitlines()[0]) from None

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)}/click")

    def type(self, selector, text):
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def count(self, selector):
        return self.run("return document.querySelectorAll(arguments[0]).length", selector)

    def wheel(self, selector, delta):
        origin = {ELEMENT: self.find(selector)}
        self.call("POST", "/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [
            {"type": "scroll", "x": 0, "y": 0, "deltaX": 0, "deltaY": delta, "origin": origin}]}]})

    def screenshot(self, path):
        Path(path).write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def complaints(self):
        """Messages of the console at the level of an error: a policy violation, an exception."""
        return [
            entry["message"]
            for entry in self.call("POST", "/se/log", {"type": "browser"})
            if entry["level"] == "SEVERE"
        ]


@contextlib.contextmanager
def browser(width=1280, height=1000, dark=False):
    process = subprocess.Popen(
        ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        port = next(
            line.rsplit(" ", 1)[1].strip(". \n") for line in process.stdout if "started successfully on port" in line
        )
        driver = f"http://127.0.0.1:{port}"
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--window-size={width},{height}",
        ]
        wanted = {
            "capabilities": {
                "alwaysMatch": {
                    "goog:loggingPrefs": {"browser": "ALL"},
                    "goog:chromeOptions": {
                        "args": (
                            options + (["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else [])
                        )
                    },
                }
            }
        }
        request = urllib.request.Request(
            f"{driver}/session", json.dumps(wanted).encode(), {"Content-Type": "application/json"}
        )
        for attempt in range(5):
            try:
                with urllib.request.urlopen(request, timeout=120) as answer:
                    session = json.load(answer)["value"]["sessionId"]
                break
            except urllib.error.URLError:
                if attempt == 4:
                    raise
                time.sleep(1)
        page = Browser(driver, session)
        yield page
        with contextlib.suppress(Exception):
            page.call("DELETE", "")
    finally:
        process.terminate()
        process.wait(10)
