#!/usr/bin/env python3
"""Reads messages from two Everturn binaries in turn, on copies of one database, and prints the ratios.

  read.py --before PATH --after PATH [--messages 1000] [--seconds 4] [--keep FOLDER]

What is measured is the server's side: processor time of the server process for a request, and the time until the last
byte of the answer has come, with a client that only counts bytes. The two take turns every few requests, so that noise
on the machine hits both. Both must answer with the same bytes, or nothing is measured.

Two sessions are read, both written by the binary before. "imported" came from an export file with prompts, thoughts, edits
and long outputs; "own" was run with a scripted model and real commands. --keep keeps the seeded database in a folder and
uses it again the next time.
"""
import argparse, base64, http.client, json, os, pathlib, random, shutil, signal, socket, statistics, subprocess, tempfile, time

PASSWORD = "bench"
AUTH = {"authorization": "Basic " + base64.b64encode(f"opencode:{PASSWORD}".encode()).decode()}
WORDS = "the server reads a file then writes what it found into another one because the test wants a cursor over every page of a long session".split()


def prose(rng, count):
    return " ".join(rng.choice(WORDS) for _ in range(count))


def listing(rng, size):
    lines = []
    while sum(map(len, lines)) < size:
        lines.append(f"{len(lines) + 1:05d}| \tlet {rng.choice(WORDS)} = \"{prose(rng, rng.randint(2, 9))}\"; // {rng.random():.4f}")
    return "\n".join(lines)


def export(messages):
    """A session as OpenCode exports it: prompts, and answers that think, read, edit, run commands and report."""
    rng, count, session, start = random.Random(1), [0], "ses_bench0000000000000000000", 1_760_000_000_000
    def fresh(kind):
        count[0] += 1
        return f"{kind}_{count[0]:012x}bench000000000"
    def tool(name, given, output, metadata, at):
        state = {"status": "completed", "input": given, "output": output, "title": name, "metadata": metadata, "time": {"start": at + 5, "end": at + 60}}
        return {"type": "tool", "callID": fresh("call"), "tool": name, "state": state}
    listed, user, model = [], None, {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}
    for i in range(messages):
        at, message = start + i * 1000, fresh("msg")
        if i % 4 == 0:
            user = message
            info = {"role": "user", "time": {"created": at}, "agent": "build", "model": model, "summary": {"diffs": []}}
            parts = [{"type": "text", "text": prose(rng, rng.randint(10, 80))}]
        else:
            tokens = {"input": rng.randint(1, 9000), "output": rng.randint(10, 900), "reasoning": 0, "cache": {"read": rng.randint(0, 90000), "write": 0}}
            info = {"role": "assistant", "time": {"created": at, "completed": at + 900}, "parentID": user, "modelID": model["modelID"], "providerID": model["providerID"], "mode": "build", "agent": "build", "path": {"cwd": "/srv/project", "root": "/srv/project"}, "cost": 0.0125, "tokens": tokens, "finish": "tool-calls" if i % 4 < 3 else "stop"}
            parts = [{"type": "step-start", "snapshot": "4b825dc642cb6eb9a060e54bf8d69288fbee4904"}]
            if i % 4 == 1:
                parts.append({"type": "reasoning", "text": prose(rng, rng.randint(30, 150)), "time": {"start": at, "end": at + 3}, "metadata": {"anthropic": {"signature": base64.b64encode(rng.randbytes(300)).decode()}}})
            parts.append({"type": "text", "text": prose(rng, rng.randint(8, 120)), "time": {"start": at, "end": at + 4}})
            if i % 4 == 1:
                shown = listing(rng, rng.randint(500, 8000))
                parts.append(tool("read", {"filePath": "/srv/project/src/main.rs", "offset": 0, "limit": 200}, f"<file>\n{shown}\n</file>", {"preview": shown[:400], "truncated": False}, at))
            if i % 4 == 2:
                old, new = listing(rng, 300), listing(rng, 400)
                diff = "--- a/src/main.rs\n+++ b/src/main.rs\n@@ -1,9 +1,12 @@\n" + "\n".join("-" + line for line in old.split("\n")) + "\n" + "\n".join("+" + line for line in new.split("\n"))
                parts.append(tool("edit", {"filePath": "/srv/project/src/main.rs", "oldString": old, "newString": new}, "Edit applied.", {"diff": diff, "filediff": {"file": "src/main.rs", "additions": 4, "deletions": 3}, "diagnostics": {}}, at))
                out = listing(rng, rng.randint(200, 3000))
                parts.append(tool("bash", {"command": "cargo test --all", "description": "Runs the tests"}, out, {"output": out, "exit": 0, "description": "Runs the tests"}, at))
                parts.append({"type": "patch", "hash": "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "files": ["/srv/project/src/main.rs"]})
            parts.append({"type": "step-finish", "reason": info["finish"], "snapshot": "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "cost": 0.0125, "tokens": tokens})
        here = {"id": message, "sessionID": session}
        listed.append({"info": {**here, **info}, "parts": [{"id": fresh("prt"), "sessionID": session, "messageID": message, **part} for part in parts]})
    info = {"id": session, "slug": "calm-otter", "projectID": "global", "directory": "/srv/project", "title": "A long session", "version": "1.18.33", "time": {"created": start, "updated": start + messages * 1000}}
    return session, {"info": info, "messages": listed}


class Server:
    def __init__(self, name, binary, root, project):
        self.name, self.binary, self.root, self.project, self.process = name, os.path.abspath(binary), root, project, None
        self.env = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
        for var, sub in (("HOME", "home"), ("XDG_DATA_HOME", "data"), ("XDG_CONFIG_HOME", "config"), ("XDG_CACHE_HOME", "cache"), ("XDG_STATE_HOME", "state")):
            (root / sub).mkdir(parents=True, exist_ok=True)
            self.env[var] = str(root / sub)
        self.env["OPENCODE_SERVER_PASSWORD"] = PASSWORD

    def run(self, *args):
        subprocess.run([self.binary, *args], env=self.env, cwd=self.project, check=True, stdout=subprocess.DEVNULL)

    def start(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen([self.binary, "serve", "--hostname", "127.0.0.1", "--port", str(self.port)], env=self.env, cwd=self.project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            if self.process.poll() is not None:
                raise SystemExit(f"{self.name} ended with {self.process.returncode}")
            try:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
                self.call("GET", "/global/health")
                return
            except OSError:
                time.sleep(0.01)

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()

    def call(self, method, path, body=None):
        headers = dict(AUTH) if body is None else {**AUTH, "content-type": "application/json"}
        self.connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = self.connection.getresponse()
        raw = response.read()
        if response.status >= 300:
            raise SystemExit(f"{self.name}: {method} {path}: {response.status} {raw[:300]}")
        return raw, response.headers

    def cpu(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def seed(server, project, messages):
    """Fills a new store; says which sessions are to be read."""
    imported, whole = export(messages)
    path = project / "export.json"
    path.write_text(json.dumps(whole))
    server.run("session", "import", str(path))
    steps = [{"reasoning": "I look first.", "text": "I list the files.", "tools": [{"name": "bash", "input": {"command": "seq 1 400", "description": "Counts"}}]}, {"text": prose(random.Random(2), 60), "tools": [{"name": "bash", "input": {"command": "seq 1 40", "description": "Counts again"}}]}, {"text": prose(random.Random(3), 60)}]
    (project / "play.json").write_text(json.dumps(steps))
    (project / "opencode.json").write_text(json.dumps({"permission": {"*": "allow"}}))
    server.start()
    own = json.loads(server.call("POST", "/session", {"title": "own"})[0])["id"]
    for turn in range((messages + 3) // 4):
        body = {"model": {"providerID": "scripted", "modelID": "./play.json"}, "parts": [{"type": "text", "text": f"turn {turn}"}]}
        server.call("POST", f"/session/{own}/message", body)
    server.stop()
    return {"imported": imported, "own": own}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--before", required=True), ap.add_argument("--after", required=True), ap.add_argument("--keep", type=pathlib.Path)
    ap.add_argument("--messages", type=int, default=1000), ap.add_argument("--seconds", type=float, default=4, help="for each server and line")
    args = ap.parse_args()
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="read-"))
    source = (args.keep or scratch / "source").absolute()
    project = source / "project"
    if not (source / "sessions.json").exists():
        project.mkdir(parents=True)
        subprocess.run(["git", "init", "-q"], cwd=project, check=True)
        sessions = seed(Server("before", args.before, source / "store", project), project, args.messages)
        (source / "sessions.json").write_text(json.dumps(sessions))
    sessions = json.loads((source / "sessions.json").read_text())
    servers = []
    try:
        for name, binary in (("before", args.before), ("after", args.after)):
            shutil.copytree(source / "store", scratch / name)
            servers.append(Server(name, binary, scratch / name, project))
            servers[-1].start()
        print(f"{'':46}{'bytes':>9}{'before':>9}{'after':>9}{'':10}{'before':>9}{'after':>9}\n{'':46}{'':>9}{'processor ms':>18}{'':10}{'wall ms':>18}")
        for kind, session in sessions.items():
            base = f"/session/{session}/message"
            ids = [message["info"]["id"] for message in json.loads(servers[0].call("GET", base)[0])]
            cursor = servers[0].call("GET", f"{base}?limit={len(ids) // 2}")[1]["x-next-cursor"]
            for what, path in ((f"{len(ids)} messages", base), ("newest 100", f"{base}?limit=100"), ("100 before the middle", f"{base}?limit=100&before={cursor}"), ("one in the middle", f"{base}/{ids[len(ids) // 2]}")):
                answers = [server.call("GET", path)[0] for server in servers]
                if answers[0] != answers[1]:
                    raise SystemExit(f"{path}: the answers differ")
                cpu, wall, done, spent = [0.0, 0.0], [[], []], [0, 0], [0.0, 0.0]
                while min(spent) < args.seconds:
                    for at, server in enumerate(servers):
                        before, began = server.cpu(), time.perf_counter()
                        while time.perf_counter() - began < args.seconds / 8:
                            mark = time.perf_counter()
                            server.call("GET", path)
                            wall[at].append((time.perf_counter() - mark) * 1000)
                        cpu[at] += server.cpu() - before
                        done[at] = len(wall[at])
                        spent[at] += time.perf_counter() - began
                used, took = [c / n for c, n in zip(cpu, done)], [statistics.median(w) for w in wall]
                print(f"{kind + ', ' + what:46}{len(answers[0]):9}{used[0]:9.3f}{used[1]:9.3f}{used[0] / used[1]:9.2f}x{took[0]:9.3f}{took[1]:9.3f}{took[0] / took[1]:9.2f}x", flush=True)
    finally:
        for server in servers:
            server.stop()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
