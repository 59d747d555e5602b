#!/usr/bin/env python3
"""Runs the same work against OpenCode and Everturn, side by side in one run, and prints the ratios.

  compare.py --opencode PATH --everturn PATH [--only opencode|everturn] [--quick] [--json FILE]

Needs: the OpenCode binary (npm package opencode-ai@1.18.33), the Everturn release binary, python3, git.
Both servers get the same scripted model (fake_llm.py), the same configuration (opencode.json), the same project
and the same seeded history. Measurements alternate between the two, so that noise on the machine hits both.
What Everturn must offer: `serve --hostname H --port P`, `import opencode DIR`, `session list`, the V1 HTTP routes,
OPENCODE_CONFIG as a configuration source, and HTTP Basic with the password in OPENCODE_SERVER_PASSWORD.
"""
import argparse, base64, http.client, json, os, pathlib, shutil, signal, socket, statistics, subprocess, sys, tempfile, threading, time
from urllib.parse import quote

HERE = pathlib.Path(__file__).resolve().parent
PASSWORD = "bench"
AUTH = "Basic " + base64.b64encode(f"opencode:{PASSWORD}".encode()).decode()
MODEL = {"providerID": "fake", "modelID": "fake-1"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_port(port, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return
        except OSError:
            time.sleep(0.01)
    raise SystemExit(f"nothing listens on {port}")


class Server:
    def __init__(self, name, binary, scratch, project, config):
        self.name, self.binary, self.project = name, binary, project
        self.root = scratch / name
        self.env = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
        for var, sub in (("HOME", "home"), ("XDG_DATA_HOME", "data"), ("XDG_CONFIG_HOME", "config"), ("XDG_CACHE_HOME", "cache"), ("XDG_STATE_HOME", "state")):
            (self.root / sub).mkdir(parents=True, exist_ok=True)
            self.env[var] = str(self.root / sub)
        self.env.update(OPENCODE_CONFIG=str(config), OPENCODE_SERVER_PASSWORD=PASSWORD, OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1", OPENCODE_DISABLE_LSP_DOWNLOAD="1", OPENCODE_DISABLE_DEFAULT_PLUGINS="1")
        self.process = None

    def run(self, *args):
        return subprocess.run([self.binary, *args], env=self.env, cwd=self.project, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def start(self):
        """Starts the server; returns milliseconds until it has answered a first list of sessions."""
        self.port = free_port()
        began = time.perf_counter()
        self.process = subprocess.Popen([self.binary, "serve", "--hostname", "127.0.0.1", "--port", str(self.port)], env=self.env, cwd=self.project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            if self.process.poll() is not None:
                raise SystemExit(f"{self.name} ended with {self.process.returncode}")
            try:
                if self.call("GET", "/global/health", timeout=0.3):
                    break
            except (OSError, http.client.HTTPException):
                time.sleep(0.002)
        self.call("GET", "/session?limit=1")
        return (time.perf_counter() - began) * 1000

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def call(self, method, path, body=None, timeout=600):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        path += ("&" if "?" in path else "?") + "directory=" + quote(str(self.project), safe="")
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"content-type": "application/json", "authorization": AUTH})
        response = connection.getresponse()
        raw = response.read()
        connection.close()
        if response.status >= 300:
            raise SystemExit(f"{self.name}: {method} {path}: {response.status} {raw[:300]}")
        return json.loads(raw) if raw else True

    def session(self):
        return self.call("POST", "/session", {"title": "bench"})["id"]

    def prompt(self, session, text):
        return self.call("POST", f"/session/{session}/message", {"model": MODEL, "parts": [{"type": "text", "text": text}]})

    def rss(self):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024

    def cpu(self):
        f = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(f[11]) + int(f[12])) * 1000 / os.sysconf("SC_CLK_TCK")


class Events(threading.Thread):
    """Live V1 events with their arrival times."""
    def __init__(self, server):
        super().__init__(daemon=True)
        self.seen = []
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
        self.connection.request("GET", "/event?directory=" + quote(str(server.project), safe=""), headers={"authorization": AUTH})
        self.response = self.connection.getresponse()
        self.start()

    def run(self):
        try:
            while line := self.response.readline():
                if line.startswith(b"data:"):
                    self.seen.append((time.perf_counter(), line))
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass


def timed(action):
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def interleave(servers, rounds, measure):
    """measure(server) -> number, alternating servers; returns the median for each."""
    out = {s.name: [] for s in servers}
    for _ in range(rounds):
        for s in servers:
            out[s.name].append(measure(s))
    return {name: statistics.median(values) for name, values in out.items()}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--opencode", type=os.path.abspath); ap.add_argument("--everturn", type=os.path.abspath); ap.add_argument("--only"); ap.add_argument("--json")
    ap.add_argument("--quick", action="store_true", help="fewer rounds and less history")
    args = ap.parse_args()
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="compare-"))
    project = scratch / "project"
    project.mkdir()
    (project / "a.txt").write_text("hello\n")
    for c in (["init", "-q"], ["add", "."], ["-c", "user.name=bench", "-c", "user.email=bench@example.com", "commit", "-qm", "first"]):
        subprocess.run(["git", *c], cwd=project, check=True)
    llm_port = free_port()
    config = scratch / "opencode.json"
    config.write_text((HERE / "opencode.json").read_text().replace("127.0.0.1:4999", f"127.0.0.1:{llm_port}"))
    llm = subprocess.Popen([sys.executable, str(HERE / "fake_llm.py"), str(llm_port)])
    wait_port(llm_port)
    opencode = Server("opencode", args.opencode, scratch, project, config)
    everturn = Server("everturn", args.everturn, scratch, project, config) if args.everturn else None
    servers = [s for s in (opencode, everturn) if s and s.binary and args.only in (None, s.name)]
    rounds = 3 if args.quick else 7
    rows = []
    def row(what, unit, values):
        rows.append((what, unit, values))
        a, b = values.get("opencode"), values.get("everturn")
        ratio = f"{a / b:8.1f}x" if a and b else ""
        print(f"{what:44} {a if a is None else round(a, 2)!s:>12} {b if b is None else round(b, 2)!s:>12} {unit:6} {ratio}", flush=True)
    print(f"{'':44} {'opencode':>12} {'everturn':>12}")
    try:
        # the same history for both: made in OpenCode's own database, imported by Everturn
        opencode.start(); warm = opencode.session(); opencode.prompt(warm, "TOOL:bash:true"); opencode.stop()
        db = next((opencode.root / "data").rglob("opencode*.db"))
        count = 300 if args.quick else 3000
        subprocess.run([sys.executable, str(HERE / "seed.py"), str(db), "sessions", str(count)], check=True, stdout=subprocess.PIPE)
        long_size = 200 if args.quick else 1000
        long = subprocess.run([sys.executable, str(HERE / "seed.py"), str(db), "messages", str(long_size)], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1]
        if everturn in servers:
            row(f"import {count} sessions", "ms", {"everturn": timed(lambda: everturn.run("import", "opencode", str(db.parent)))})
        def cold(s):
            ms = s.start(); s.stop(); return ms
        row("cold start to first answer", "ms", interleave(servers, rounds, cold))
        row("command `session list`", "ms", interleave(servers, rounds, lambda s: timed(lambda: s.run("session", "list"))))
        for s in servers: s.start()
        for s in servers: s.call("GET", "/agent")
        time.sleep(2)
        row("memory, idle", "MB", {s.name: s.rss() for s in servers})
        row(f"list newest 100 of {count} sessions", "ms", interleave(servers, rounds, lambda s: timed(lambda: s.call("GET", "/session?limit=100"))))
        row(f"search {count} sessions by title", "ms", interleave(servers, rounds, lambda s: timed(lambda: s.call("GET", "/session?limit=30&search=cloned%2017"))))
        row(f"read {long_size} messages", "ms", interleave(servers, rounds, lambda s: timed(lambda: s.call("GET", f"/session/{long}/message"))))
        row(f"read newest 100 of {long_size} messages", "ms", interleave(servers, rounds, lambda s: timed(lambda: s.call("GET", f"/session/{long}/message?limit=100"))))
        row(f"fork {long_size} messages", "ms", interleave(servers, 1 if args.quick else 3, lambda s: timed(lambda: s.call("POST", f"/session/{long}/fork", {}))))
        for s in servers: s.prompt(s.session(), "TEXT:3")
        events = {s.name: Events(s) for s in servers}
        first = {s.name: [] for s in servers}; kept = {s.name: s.session() for s in servers}
        def turn(text):
            def measure(s):
                e, mark = events[s.name], len(events[s.name].seen); began = time.perf_counter()
                s.prompt(kept[s.name], text); took = (time.perf_counter() - began) * 1000
                time.sleep(0.2)
                hits = [t for t, line in e.seen[mark:] if b"message.part.delta" in line or b'"delta"' in line]
                if hits: first[s.name].append((hits[0] - began) * 1000)
                return took
            return measure
        row("text turn", "ms", interleave(servers, rounds, turn("TEXT:3")))
        many = 10 if args.quick else 50  # ticks are 10 ms, so many turns are needed
        def processor(s):
            before = s.cpu()
            for _ in range(many): s.prompt(kept[s.name], "TEXT:3")
            return max(s.cpu() - before, 1000 / os.sysconf("SC_CLK_TCK")) / many
        row("processor time for a text turn", "ms", {s.name: processor(s) for s in servers})
        row("first streamed text", "ms", {n: statistics.median(v) for n, v in first.items() if v})
        row("turn with one tool call (bash true)", "ms", interleave(servers, rounds, turn("TOOL:bash:true")))
        def crowd(n):
            def measure(s):
                ids = [s.session() for _ in range(n)]
                threads = [threading.Thread(target=s.prompt, args=(i, "TEXT:3")) for i in ids]
                return timed(lambda: ([t.start() for t in threads], [t.join() for t in threads]))
            return measure
        n = 10 if args.quick else 50
        row(f"{n} sessions prompting at once", "ms", interleave(servers, 1 if args.quick else 3, crowd(n)))
        row("memory, after this work", "MB", {s.name: s.rss() for s in servers})
    finally:
        for s in servers: s.stop()
        llm.kill()
        if args.json: pathlib.Path(args.json).write_text(json.dumps([{"what": w, "unit": u, **v} for w, u, v in rows], indent=1))
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
