"""Takes the status page's pictures of docs/images/: tools/python tests/operate/screenshots.py"""

import base64
import concurrent.futures
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from browser import LAPTOP, PHONE, browsing  # noqa: E402
from harness import normal, pb, qr_request, running, tensor, wait_until  # noqa: E402
from test_status_page import code_of, look_up, open_page  # noqa: E402

SECONDS = 20  # of load before the pictures
SHAPES = [((400, 8, 8), "f4"), ((60, 32, 32), "f4"), ((8, 120, 40), "f8"), ((30, 24, 16), "c8")]


def send(stub, end, number):
    i = number
    while time.monotonic() < end:
        dims, dtype = SHAPES[i % len(SHAPES)]
        i += 1
        a = normal(*dims, dtype=dtype, seed=i)
        if i % 5 == 0:
            stub.Solve(pb.SolveRequest(problems=[pb.LeastSquaresProblem(a=tensor(a), b=tensor(a[..., :1]))]))
        else:
            stub.Factorize(qr_request(a))
        if i % 40 == 0:
            code_of(lambda: stub.Factorize(pb.FactorizeRequest(a=[pb.Tensor(dtype=pb.DTYPE_F32, dims=[7, -1])], qr=pb.QrOptions(r=True))))


def take(server, name, size, dark):
    with browsing(size, dark=dark) as browser:
        open_page(browser, server)
        look_up(browser, batch=640, m=512, n=512)
        wait_until(lambda: "bucket" in browser.text("#plan-answer"))
        time.sleep(2)  # a refresh
        picture = browser.command("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip={
            "x": 0, "y": 0, "width": size[0], "height": browser.run("return document.documentElement.scrollHeight"), "scale": 1})
    path = ROOT / "docs" / "images" / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(base64.b64decode(picture["data"]))
    print(path)


def main():
    with running("--cpu_threads=1", "--warmup_shapes=400x8x8,60x32x32") as server, concurrent.futures.ThreadPoolExecutor(8) as pool:
        wait_until(lambda: server.metrics()["factord_serving"] == 1)
        end = time.monotonic() + SECONDS + 60
        clients = [pool.submit(send, server.stub(), end, 10 * i) for i in range(6)]
        time.sleep(SECONDS)
        take(server, "status-light", LAPTOP, dark=False)
        take(server, "status-dark-phone", PHONE, dark=True)
        for client in clients:
            client.result()


main()
