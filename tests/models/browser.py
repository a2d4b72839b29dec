"""Real models in headless Chromium: Weft through WebGPU against ONNX Runtime.

usage: browser.py BUILD_FOLDER [--only NAME] [--seconds N]
Per model: `weft compile --emit web`, the folder served on a loopback port, one call at one shape through weft.js; for models that
read pictures, index.html too: a picture is dropped on it, and what the page fed the model is given to ONNX Runtime.
WEFT_TEST_BROWSER names another Chromium."""
import argparse
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import numpy as np
import onnx

import compare
import models

CHROMIUM = os.environ.get("WEFT_TEST_BROWSER", "/usr/bin/chromium")
# The Dawn feature: SwiftShader compiles a store for each word of workgroup memory, a second for 8 KB.
FLAGS = ["--disable-dawn-features=use_vulkan_zero_initialize_workgroup_memory_extension", "--headless=new", "--no-sandbox", "--disable-gpu-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader",
         "--enable-features=Vulkan", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
         "--no-first-run", "--no-default-browser-check", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
NAMES = ["magika", "rapidocr-cls", "silero-vad", "orientation", "rapidocr-rec"]
DRIVER = """<!doctype html><body><script type="module">
import {open} from '/site/weft.js';
const post = (path, body) => fetch(path, {method: 'POST', body});
const port = ({dtype, shape, data}) => ({dtype, shape, bytes: btoa(Array.from(new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
                                                                           (b) => String.fromCharCode(b)).join(''))});
const ports = (list) => Object.fromEntries(Object.entries(list).map(([name, p]) => [name, port(p)]));
async function byModule(spec) {
  const inputs = {}, start = performance.now();
  for (const {name, shape} of spec.inputs) inputs[name] = {shape, data: new Uint8Array(await (await fetch('/input/' + name)).arrayBuffer())};
  const model = await open('/site/model.weft'), loaded = performance.now();
  const outputs = await model.run(inputs), ran = performance.now();
  await model.run(inputs);
  model.destroy();
  await post('/module', JSON.stringify({load: loaded - start, first: ran - loaded, second: performance.now() - ran, outputs: ports(outputs)}));
}
async function byPage() {
  const frame = document.body.appendChild(document.createElement('iframe'));
  frame.src = '/site/index.html';
  const until = async (what) => { while (!what()) await new Promise((resolve) => setTimeout(resolve, 100)); };
  await until(() => frame.contentWindow.demo?.error || frame.contentDocument?.querySelector('canvas'));
  const demo = frame.contentWindow.demo;
  if (demo.error) throw new Error(demo.error);
  const canvas = Object.assign(document.createElement('canvas'), {width: 300, height: 60}), pen = canvas.getContext('2d');
  Object.assign(pen, {fillStyle: '#fff'}).fillRect(0, 0, 300, 60);
  Object.assign(pen, {fillStyle: '#000', font: '40px sans-serif'}).fillText('Weft 2026', 10, 45);
  const files = new DataTransfer();
  files.items.add(new File([await new Promise((resolve) => canvas.toBlob(resolve))], 'words.png', {type: 'image/png'}));
  frame.contentDocument.querySelector('canvas').dispatchEvent(new DragEvent('drop', {dataTransfer: files, bubbles: true, cancelable: true}));
  await until(() => demo.runs);
  if (demo.error) throw new Error(demo.error);
  const text = (id) => frame.contentDocument.getElementById(id).textContent;
  const inputs = Object.fromEntries(Object.entries(demo.inputs).map(([name, p]) => [name, {...p, dtype: 'f32'}]));
  await post('/page', JSON.stringify({inputs: ports(inputs), outputs: ports(demo.outputs), answer: text('answer'), times: text('times')}));
}
(async () => {
  const spec = await (await fetch('/spec')).json();
  await byModule(spec);
  if (spec.page) await byPage();
})().catch((error) => post('/error', String(error.stack ?? error))).finally(() => post('/done', ''));
</script></body>"""
DTYPES = {"f32": np.float32, "i64": np.int64, "i32": np.int32, "bool": np.bool_, "u8": np.uint8}


class Server(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def reply(self, body, kind="application/octet-stream", code=200):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        job = self.server.job
        if self.path == "/":
            return self.reply(DRIVER.encode(), "text/html")
        if self.path == "/spec":
            inputs = [{"name": n, "shape": list(a.shape)} for n, a in job["feed"].items()]
            return self.reply(json.dumps({"inputs": inputs, "page": job["page"]}).encode(), "application/json")
        if self.path.startswith("/input/"):
            return self.reply(np.ascontiguousarray(job["feed"][self.path[7:]]).tobytes())
        file = os.path.join(job["site"], os.path.basename(self.path))
        if self.path.startswith("/site/") and os.path.exists(file):
            kind = {"html": "text/html", "js": "text/javascript"}.get(file.rsplit(".", 1)[1], "application/octet-stream")
            with open(file, "rb") as f:
                return self.reply(f.read(), kind)
        self.reply(b"", code=404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.reply(b"")
        if self.path == "/done":
            self.server.done.set()
        else:
            self.server.job["got"][self.path[1:]] = body


def browse(job, seconds):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.job, server.done = job, threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    profile = tempfile.mkdtemp()
    url = "http://127.0.0.1:%d/" % server.server_port
    browser = subprocess.Popen([CHROMIUM, *FLAGS, "--user-data-dir=" + profile, url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    finished = server.done.wait(seconds)
    os.killpg(browser.pid, signal.SIGKILL)
    browser.wait()
    server.shutdown()
    server.server_close()
    shutil.rmtree(profile, ignore_errors=True)
    if "error" in job["got"] or not finished:
        raise RuntimeError(job["got"].get("error", "no answer within %d s" % seconds))


def array_of(port):
    import base64
    return np.frombuffer(base64.b64decode(port["bytes"]), DTYPES[port["dtype"]]).reshape(port["shape"])


def characters(path, file):
    """The names of a recogniser's classes, which PaddleOCR keeps in the metadata of the model."""
    for property in onnx.load(path, load_external_data=False).metadata_props:
        if property.key == "character":
            with open(file, "w", encoding="utf-8") as f:
                f.write(property.value.rstrip("\n") + "\n")
            return ["--labels", file]
    return []


def check(args, name, folder):
    entry = next(e for e in models.MODELS if e[0] == name)
    path, make, shape = models.path(entry), entry[2], entry[3][0]
    session, rng = compare.reference(path), np.random.default_rng(7)
    feed = make(rng, shape)
    want = session.run(None, feed)
    given = compare.inputs_of(folder, feed, 0)
    constants = models.CONSTANTS.get(name, [])
    command = [os.path.join(args.build, "cli/weft"), "compile", path, "--emit", "web", "-o", os.path.join(folder, "site")]
    command += ["--dim", models.DIMS[name]] if name in models.DIMS else []
    command += compare.flags("--input", [g for g in given if g.split("=", 1)[0] in constants])
    compare.run(command + characters(path, os.path.join(folder, "characters.txt")))
    picture = len(feed) == 1 and len(shape) == 4
    job = {"site": os.path.join(folder, "site"), "feed": {n: a for n, a in feed.items() if n not in constants}, "page": picture, "got": {}}
    browse(job, args.seconds)
    outputs = [o.name for o in session.get_outputs()]
    got = json.loads(job["got"]["module"])
    errors = [compare.error(array_of(got["outputs"][n]), w) for n, w in zip(outputs, want)]
    line = "%-14s module %8.1e  load %6.1f s  calls %7.1f and %7.1f ms" % (name, max(errors), got["load"] / 1e3, got["first"], got["second"])
    if picture:
        page = json.loads(job["got"]["page"])
        want = session.run(None, {n: array_of(p) for n, p in page["inputs"].items()})
        errors += [compare.error(array_of(page["outputs"][n]), w) for n, w in zip(outputs, want)]
        line += "  page %8.1e: %s" % (errors[-1], page["answer"].split("\n", 1)[1][:40])
    right = max(errors) <= compare.TOLERANCE
    print(line + ("" if right else "  WRONG"), flush=True)
    return right


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--only")
    p.add_argument("--seconds", type=int, default=900)
    args = p.parse_args()
    failed = 0
    for name in [args.only] if args.only else NAMES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                failed += not check(args, name, folder)
            except RuntimeError as problem:
                print("%-14s FAILED: %s" % (name, problem), flush=True)
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
