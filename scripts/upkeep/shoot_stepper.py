#!/usr/bin/env python3
"""Makes the pictures of docs/stepper.md anew: the pages of docs/site in a headless Chromium.

Usage: scripts/upkeep/shoot_stepper.py
"""

import sys

import browser

ROOT = browser.Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
SHOTS = (
    # picture, page, versions and step, width, height, colours
    ("stepper-light.png", "transpose.html", "v02,v03,17", 1400, 1280, "light"),
    ("stepper-dark.png", "ring.html", "v11,v12,60", 1400, 1000, "dark"),
    ("stepper-phone.png", "transpose.html", "v01,v02,8", 390, 844, "light"),
)


def main() -> None:
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    if not browser.CHROMIUM:
        sys.exit("Chromium is missing: install the package chromium.")
    with browser.Browser() as page:
        for picture, file, at, width, height, colours in SHOTS:
            page.width(width, height)
            page.media(prefers_color_scheme=colours, prefers_reduced_motion="reduce")
            page.open(DOCS / "site" / file, at)
            page.screenshot(DOCS / picture)
            print(DOCS / picture)


if __name__ == "__main__":
    main()
