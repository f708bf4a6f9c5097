"""The status page in a browser."""

import urllib.parse

import pytest
from browser import LAPTOP, PHONE, browsing
from harness import code_of, normal, pb, qr_request, running, wait_until
from selenium.webdriver.common.by import By

SLOW = qr_request(normal(1950, 1950, dtype="c16"), q=pb.Q_MODE_UNSPECIFIED)


def page_of(server):
    return "http://%s/" % urllib.parse.urlsplit(server.metrics_url).netloc


def send_load(server):
    stub = server.stub()
    for i in range(6):
        stub.Factorize(qr_request(normal(300, 12, 8, seed=i)))
    code_of(lambda: stub.Factorize(pb.FactorizeRequest(a=[pb.Tensor(dtype=pb.DTYPE_F32, dims=[2, -2])], qr=pb.QrOptions(r=True))))


def open_page(browser, server):
    browser.driver.get(page_of(server))
    wait_until(lambda: browser.text("#state") == "serving", timeout=60)


@pytest.fixture(scope="module")
def server():
    with running("--cpu_threads=1") as started:
        yield started


@pytest.fixture(scope="module")
def laptop():
    with browsing(LAPTOP) as browser:
        yield browser


def test_a_server_without_traffic_says_so_and_numbers_come_by_themselves(laptop):
    with running("--cpu_threads=1") as fresh:
        open_page(laptop, fresh)
        assert laptop.text("#traffic-empty") == "No requests yet."
        assert laptop.text("#refusals-empty") == "None." and laptop.text("#buckets-empty") == "Nothing waits."
        send_load(fresh)
        wait_until(lambda: "Factorize" in laptop.text("#requests"), timeout=60)
        wait_until(lambda: "a[0].dims[1]: is -2" in laptop.text("#refusals"), timeout=60)
        assert laptop.text("#traffic-empty") == ""
        assert laptop.text("#requests tr td").split("\n") == ["7", "1 failed"]
        assert "invalid" in laptop.text("#refusals")
        wait_until(lambda: laptop.run("return document.querySelectorAll('#tiles polyline').length") == 4, timeout=60)
        assert laptop.console() == []
        requested = laptop.requested()
        assert len(requested) > 5 and [url for url in requested if not url.startswith(page_of(fresh))] == []


def test_charts_show_what_was_measured(server, laptop):
    send_load(server)
    open_page(laptop, server)
    wait_until(lambda: laptop.run("return document.querySelectorAll('#stages-chart circle').length") == 18, timeout=60)
    wide = laptop.run("return [...document.querySelectorAll('#reasons-chart .bar')].map((bar) => bar.getBoundingClientRect().width)")
    assert len(wide) == 5 and max(wide) > 100
    tall = laptop.run("return [...document.querySelectorAll('#sizes-chart .bar')].map((bar) => bar.getBoundingClientRect().height)")
    assert len(tall) >= 10 and max(tall) > 50
    assert "cpu" in laptop.text("#devices") and "healthy" in laptop.text("#devices")
    assert "cpu_threads" in laptop.text("#settings")


def test_waiting_buckets_are_shown(server, laptop):
    open_page(laptop, server)
    stub = server.stub()
    slow = [stub.Factorize.future(SLOW) for _ in range(4)]
    waiting = [stub.Factorize.future(qr_request(normal(3, 8, 8))) for _ in range(3)]
    wait_until(lambda: "factorize c128" in laptop.text("#buckets"), timeout=60)
    for call in slow + waiting:
        call.cancel()
    wait_until(lambda: laptop.text("#buckets-empty") == "Nothing waits.", timeout=120)


def look_up(browser, **values):
    for name, value in values.items():
        browser.run("document.querySelector(`#plan [name=${arguments[0]}]`).value = arguments[1]", name, str(value))
    browser.driver.find_element(By.CSS_SELECTOR, "#plan button").click()


def test_the_plan_of_a_shape_is_what_explain_says(server, laptop):
    open_page(laptop, server)
    look_up(laptop, op="factorize", batch=640, m=512, n=512, dtype="f64")
    wait_until(lambda: "bucket" in laptop.text("#plan-answer"))
    explain = pb.ExplainRequest(factorize=qr_request(normal(640, 1, 1), data=False))
    explain.factorize.a[0].dims[:] = [640, 512, 512]
    explain.factorize.a[0].dtype = pb.DTYPE_F64
    one = server.stub().Explain(explain).explanations[0]
    shown = laptop.text("#plan-answer")
    assert one.bucket in shown and one.reason in shown and one.path in shown and one.device in shown


@pytest.mark.parametrize("values,problem", [({"m": -1, "n": 5}, 'm: is "-1"'), ({"m": 5, "n": "<b>x</b>"}, 'n: is "<b>x</b>"'),
                                            ({"m": 10**6, "n": 10**6}, "the limit is"), ({"m": 10**30, "n": 5}, "m: is")])
def test_a_shape_that_does_not_exist_is_told(server, laptop, values, problem):
    open_page(laptop, server)
    look_up(laptop, **values)
    wait_until(lambda: problem in laptop.text("#plan-answer"))
    # Chromium itself notes the refusal's code.
    assert [line for line in laptop.console() if "400 (Bad Request)" not in line] == []


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_needs_no_sideways_scrolling_and_text_stands_out(server, dark):
    send_load(server)
    with browsing(PHONE, dark=dark) as phone:
        open_page(phone, server)
        look_up(phone, m=64, n=32)
        wait_until(lambda: "bucket" in phone.text("#plan-answer"))
        assert phone.run("return window.innerWidth") == 360
        assert phone.run("return document.documentElement.scrollWidth") <= 360
        assert phone.run("return [...document.querySelectorAll('section')].every((one) => one.getBoundingClientRect().right <= 360)")
        back, text = phone.run("const style = getComputedStyle(document.body); return [style.backgroundColor, style.color]")
        assert (brightness(back) < brightness(text)) == dark
        faint = phone.run(CONTRASTS)
        assert len(faint) > 50 and min(faint) >= 4.5
        assert phone.console() == []


def brightness(color):
    return sum(float(part) for part in color[color.index("(") + 1:-1].split(",")[:3])


# WCAG's contrast of each text with what is behind it.
CONTRASTS = """
const parts = (color) => color.match(/[\\d.]+/g).map(Number);
const linear = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
const behind = (element) => {
  for (; element; element = element.parentElement) {
    const color = parts(getComputedStyle(element).backgroundColor);
    if (color.length < 4 || color[3] > 0) return color;
  }
  return [255, 255, 255];
};
return [...document.querySelectorAll("body *")]
  .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()) && one.getClientRects().length)
  .filter((one) => !["NOSCRIPT", "OPTION", "title"].includes(one.tagName))
  .map((one) => {
    const style = getComputedStyle(one);
    const [a, b] = [luminance(parts(one.closest("svg") ? style.fill : style.color)), luminance(behind(one.closest("svg")?.parentElement ?? one))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
"""


def test_everything_has_a_name(laptop, server):
    open_page(laptop, server)
    assert laptop.run("return [...document.querySelectorAll('input, select')].every((field) => field.labels.length === 1)")
    assert laptop.run("return [...document.querySelectorAll('svg')].every((chart) => chart.getAttribute('aria-label'))")
    assert laptop.run("return [...document.querySelectorAll('tbody tr')].every((row) => row.querySelector('th[scope=row], td'))")
    assert laptop.run("return [...document.querySelectorAll('table')].every((table) => table.tHead.querySelectorAll('th[scope=col]').length > 2)")
    assert laptop.run("return document.documentElement.lang") == "en"


def test_a_server_that_left_is_told(laptop):
    with running() as leaving:
        open_page(laptop, leaving)
        leaving.terminate()
        leaving.wait()
        wait_until(lambda: laptop.text("#state") == "no answer", timeout=60)
