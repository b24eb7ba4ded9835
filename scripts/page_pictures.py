"""Takes the documents' pictures of the server's page, with Playwright and Chromium.

Start two servers, `xlnet serve`, one of the sample's pretrained model and one of its classifier:

  python scripts/page_pictures.py http://127.0.0.1:8501 http://127.0.0.1:8502
"""

import io
import pathlib
import sys
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = pathlib.Path(__file__).resolve().parent.parent / "docs" / "images"
STEP, LAST = 1400, 4000  # of the animation [ms]
MARGIN = 16  # around the play [pixels]
COLOURS = 64  # of the animation


def opened(
    browser: Any, address: str, width: int, height: int, scheme: str = "light"
) -> Any:
    """The page with the answer to its first example."""
    page = browser.new_page(
        viewport={"width": width, "height": height}, color_scheme=scheme
    )
    page.goto(address)
    page.wait_for_selector("#answer > *")
    page.wait_for_selector("#stop", state="hidden")
    return page


def choose(page: Any, signature: str) -> None:
    page.click(f"nav button[data-signature={signature}]")
    page.wait_for_selector("#answer > *")
    page.wait_for_selector("#stop", state="hidden")


def animate(page: Any, path: pathlib.Path) -> None:
    """Writes the play of the factorization order, a frame for each step."""
    shots = []
    count = page.locator(".chip").count()
    box = page.locator(".play").bounding_box()
    clip = {
        "x": box["x"] - MARGIN,
        "y": box["y"] - MARGIN,
        "width": box["width"] + 2 * MARGIN,
        "height": box["height"] + 2 * MARGIN,
    }
    for step in range(count):
        page.locator(".chip").nth(step).evaluate("chip => chip.click()")
        page.wait_for_timeout(500)  # the colours change slowly
        shots.append(
            Image.open(io.BytesIO(page.screenshot(clip=clip, full_page=True))).convert(
                "RGB"
            )
        )
    # One palette for all frames: only what changes is stored.
    palette = shots[count // 2].quantize(COLOURS, dither=Image.Dither.NONE)
    frames = [
        shot.quantize(palette=palette, dither=Image.Dither.NONE) for shot in shots
    ]
    frames[0].save(
        path,
        save_all=True,
        append_images=frames[1:],
        duration=[STEP] * (count - 1) + [LAST],
        loop=0,
        optimize=True,
    )
    print(f"{path}: {count} frames, {path.stat().st_size // 1000} kB")


def main(pretrained: str, classifier: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        page = opened(browser, pretrained, 1360, 900)
        animate(page, IMAGES / "factorization.gif")
        page.close()

        page = opened(browser, pretrained, 1280, 900)
        choose(page, "attention")
        page.locator(".head").nth(3).click()
        page.screenshot(path=IMAGES / "serving_streams.png", full_page=True)
        page.close()

        page = opened(browser, pretrained, 420, 800, "dark")
        choose(page, "fill")
        page.screenshot(path=IMAGES / "serving_dark.png", full_page=True)
        page.close()

        page = opened(browser, classifier, 1240, 1000)
        page.click("#why")
        page.wait_for_selector(".words mark")
        page.locator(".words mark").nth(2).hover()
        page.screenshot(path=IMAGES / "serving.png", full_page=True)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
