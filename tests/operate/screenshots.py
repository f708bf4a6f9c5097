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

SECONDS = 45  # of load before the pictures
SHAPES = [((4000, 8, 8), "f4"), ((400, 32, 32), "f4"), ((30, 120, 40), "f8"), ((200, 24, 16), "c8")]


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


def refuse(stub):
    for request in (pb.FactorizeRequest(a=[pb.Tensor(dtype=pb.DTYPE_F32, dims=[7, -1])], qr=pb.QrOptions(r=True)),
                    qr_request(normal(3, 4), q=pb.Q_MODE_UNSPECIFIED, r=False),
                    qr_request(normal(3, 4), run=pb.RunOptions(backend=pb.BACKEND_GPU))):
        code_of(lambda request=request: stub.Factorize(request))


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
        refuse(server.stub())
        take(server, "status-light", LAPTOP, dark=False)
        take(server, "status-dark-phone", PHONE, dark=True)
        for client in clients:
            client.result()


main()
