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
KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, " ": 32, "Tab": 9, "Enter": 13, "n": 78}


class Browser:
    """One page. What its console or scripts complain of is in `errors`."""

    def __init__(self, seconds: float = 60) -> None:
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.deadline = time.monotonic() + seconds
        self.errors: list[str] = []
        self.number = 0
        self.received = b""
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()

        def wire() -> None:  # Chromium reads from 3 and writes to 4
            a, b = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(a, 3)
            os.dup2(b, 4)

        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   "--remote-debugging-pipe", "--host-resolver-rules=MAP * ~NOTFOUND",
                   f"--user-data-dir={self.profile.name}", "about:blank"]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        preexec_fn=wire, close_fds=False)  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self.reads, self.writes = ours_in, ours_out
        self.session = ""
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()
        os.close(self.reads)
        os.close(self.writes)
        self.profile.cleanup()

    def receive(self) -> dict[str, Any]:
        while b"\0" not in self.received:
            left = self.deadline - time.monotonic()
            if left <= 0 or not select.select([self.reads], [], [], left)[0]:
                raise TimeoutError("Chromium does not answer")
            more = os.read(self.reads, 1 << 20)
            if not more:
                raise RuntimeError("Chromium has ended")
            self.received += more
        message, _, self.received = self.received.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        details = found.get("params", {})
        if found.get("method") == "Runtime.exceptionThrown":
            self.errors.append(details["exceptionDetails"].get("exception", {}).get("description", "?"))
        elif found.get("method") == "Log.entryAdded" and details["entry"]["level"] == "error":
            self.errors.append(details["entry"]["text"])
        return found

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writes, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, path: Path, fragment: str = "", width: int = 1400, height: int = 1000,
             **media: str) -> None:  # fmt: skip
        """media: prefers_color_scheme="dark", prefers_reduced_motion="reduce"."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)  # fmt: skip
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Page.navigate", url="about:blank")  # so that another fragment loads the page anew
        self.call("Page.navigate", url=path.resolve().as_uri() + (f"#{fragment}" if fragment else ""))
        while self.run("document.readyState") != "complete" or self.run("location.protocol") != "file:":
            pass

    def run(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description"))
        return answer["result"].get("value")

    def press(self, key: str, times: int = 1, shift: bool = False) -> None:
        of = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": KEYS[key],
              "modifiers": 8 if shift else 0}  # fmt: skip
        text = {" ": " ", "Enter": "\r", "n": "n"}.get(key)
        for _ in range(times):
            self.call("Input.dispatchKeyEvent", type="keyDown", **of, **({"text": text} if text else {}))
            self.call("Input.dispatchKeyEvent", type="keyUp", **of)

    def click(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        """At so much of the element's width and height."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); const b = e.getBoundingClientRect(); "
            "return [b.x, b.y, b.width, b.height]; })()"
        )
        place = {"x": box[0] + x * box[2], "y": box[1] + y * box[3], "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, **place)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))
