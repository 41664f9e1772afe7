"""A headless Chromium that a script drives by its DevTools protocol, through a pipe: real keys and clicks,
other screens, slower CPUs. Nothing is installed for it."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or ""
PATIENCE = 60  # seconds for one answer: others may use the machine
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37,
        "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}  # fmt: skip


class Browser:
    """One page. What it complains of is in `errors`: exceptions that nobody caught, its console, its log."""

    def __init__(self) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def inherit() -> None:  # the browser reads what it is told from 3, and answers to 4
            read, write = os.dup(to_browser), os.dup(from_browser)
            high = max(read, write, 4) + 1
            os.dup2(read, high), os.dup2(write, high + 1)
            os.dup2(high, 3), os.dup2(high + 1, 4)

        self._process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--remote-debugging-pipe",
             "--host-resolver-rules=MAP * ~NOTFOUND", "--no-first-run",
             "--disable-ipc-flooding-protection",  # scripts choose faster than people
             f"--user-data-dir={self._profile.name}", "about:blank"],
            preexec_fn=inherit, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self._session = ""
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.width(1280)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=PATIENCE)
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self._out, text) :]
        while True:
            answer = self._hear()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer.get('error')}"
                return answer["result"]

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], PATIENCE)
            assert ready, "Chromium does not answer"
            read = os.read(self._in, 1 << 20)
            assert read, "Chromium has ended"
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        of = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            details = of["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif message.get("method") in ("Runtime.consoleAPICalled", "Log.entryAdded"):
            self.errors.append(json.dumps(of))
        return message

    def open(self, page: Path, fragment: str = "") -> None:
        """Loads a page anew, and waits until it is loaded."""
        self.call("Page.navigate", url="about:blank")
        self.wait("location.protocol === 'about:' && document.readyState === 'complete'")
        self.call("Page.navigate", url=page.resolve().as_uri() + (f"#{fragment}" if fragment else ""))
        self.wait("location.protocol === 'file:' && document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """What an expression is, or what its promise becomes; as JSON has it."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)  # fmt: skip
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description") or details)
        return answer["result"].get("value")

    def press(self, *keys: str, shift: bool = False) -> None:
        """Presses keys, one after the other, as a person does; a text is typed."""
        for key in keys:
            if key not in KEYS and len(key) > 1:
                self.call("Input.insertText", text=key)
                continue
            text = "\r" if key == "Enter" else key if len(key) == 1 else ""
            of: dict[str, Any] = {"key": key, "code": "Space" if key == " " else key, "modifiers": 8 if shift else 0,
                                  "windowsVirtualKeyCode": KEYS.get(key, ord(key[0]))}  # fmt: skip
            down: dict[str, Any] = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
            self.call("Input.dispatchKeyEvent", **down, **of)
            self.call("Input.dispatchKeyEvent", type="keyUp", **of)

    def place(self, selector: str, x: float, y: float) -> dict[str, float]:
        """Where so much of an element's width and height is, once it is scrolled into sight."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); const b = e.getBoundingClientRect(); "
            "return [b.x, b.y, b.width, b.height]; })()"
        )
        return {"x": box[0] + x * box[2], "y": box[1] + y * box[3]}

    def point(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        """Moves the mouse there."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **self.place(selector, x, y))

    def click(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        place = {**self.place(selector, x, y), "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, **place)

    def width(self, pixels: int, height: int = 900) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=pixels, height=height,
                  deviceScaleFactor=1, mobile=pixels < 600)  # fmt: skip

    def media(self, **features: str) -> None:
        """As if the system preferred this: prefers_color_scheme="dark", prefers_reduced_motion="reduce"."""
        of = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", features=of)

    def slow_down(self, times: float) -> None:
        """Lets the CPU seem so many times slower."""
        self.call("Emulation.setCPUThrottlingRate", rate=times)

    def wait(self, condition: str) -> None:
        """Until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"never: {condition}"
            time.sleep(0.02)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(shot))
