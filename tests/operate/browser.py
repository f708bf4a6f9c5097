"""Headless Chromium, as a person with a laptop or a phone."""

import contextlib
import json

from selenium import webdriver

LAPTOP = (1280, 900)
PHONE = (360, 780)


class Browser:
    def __init__(self, size=LAPTOP, dark=False):
        options = webdriver.ChromeOptions()
        # It may run as root, and in a container with a small /dev/shm.
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.binary_location = "/usr/bin/chromium"
        self.driver = webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))
        self.driver.set_page_load_timeout(120)
        self.command("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=size is PHONE)
        self.command("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def command(self, name, **arguments):
        return self.driver.execute_cdp_cmd(name, arguments)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def text(self, selector):
        """Of the first such element; nothing where it does not show."""
        return self.run("const one = document.querySelector(arguments[0]); return one?.checkVisibility() ? one.innerText : ''", selector)

    def console(self):
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def requested(self):
        """Every URL that was asked for since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]


@contextlib.contextmanager
def browsing(*arguments, **named):
    browser = Browser(*arguments, **named)
    try:
        yield browser
    finally:
        browser.driver.quit()
