#!/usr/bin/env python3
"""How long a new connection takes until its first answer, by what else there is, for two binaries of Everturn in turns.

  connect.py --before PATH --after PATH [--rounds N] [--busy N]

Each case has a server of each binary: with so many programs of an agent running in the background, and with so many open
connections that have shown the token. `--busy` adds processes that have nothing to do with it.
"""
import argparse, base64, http.client, json, os, pathlib, socket, statistics, subprocess, tempfile, time

PASSWORD = "bench"
AUTH = "Basic " + base64.b64encode(f"opencode:{PASSWORD}".encode()).decode()
CASES = [(0, 0), (1, 0), (50, 0), (0, 500), (1, 450), (50, 450)]


class Server:
    def __init__(self, binary, scratch, programs, connections):
        home = pathlib.Path(tempfile.mkdtemp(dir=scratch))
        project = home / "project"
        project.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=project, check=True)
        call = {"name": "bash", "input": {"command": "sleep 1000", "description": "Wait", "background": True}}
        steps = [{"tools": [call] * programs}] if programs else []
        (home / "play.json").write_text(json.dumps({"steps": steps + [{"text": "done"}]}))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        env = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
        env.update(HOME=str(home), EVERTURN_DATA=str(home / "data"), OPENCODE_SERVER_PASSWORD=PASSWORD, OPENCODE_DISABLE_MODELS_FETCH="1")
        self.process = subprocess.Popen([os.path.abspath(binary), "serve", "--hostname", "127.0.0.1", "--port", str(self.port)], env=env, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                self.ask()
                break
            except OSError:
                time.sleep(0.05)
        if programs:
            session = json.loads(self.send("POST", "/session", {}))["id"]
            model = {"providerID": "scripted", "modelID": str(home / "play.json")}
            self.send("POST", f"/session/{session}/message", {"model": model, "parts": [{"type": "text", "text": "go"}]})
        self.open = []
        for _ in range(connections):
            line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            line.request("GET", "/session?limit=1", headers={"authorization": AUTH})
            line.getresponse().read()
            self.open.append(line)

    def send(self, method, path, body=None):
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        headers = {"authorization": AUTH, "content-type": "application/json"}
        line.request(method, path, None if body is None else json.dumps(body), headers)
        answer = line.getresponse()
        text = answer.read()
        line.close()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {text}")
        return text

    def ask(self):
        """Milliseconds from before the connection to the end of the answer."""
        began = time.perf_counter()
        self.send("GET", "/session?limit=1")
        return (time.perf_counter() - began) * 1000

    def close(self):
        for line in self.open:
            line.close()
        self.process.terminate()
        self.process.wait()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--before", required=True)
    arguments.add_argument("--after", required=True)
    arguments.add_argument("--rounds", type=int, default=300)
    arguments.add_argument("--busy", type=int, default=0)
    given = arguments.parse_args()
    others = [subprocess.Popen(["sleep", "1000"]) for _ in range(given.busy)]
    print("| programs | open connections | before: median | quickest tenth | after: median | quickest tenth |")
    print("|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as scratch:
        for programs, connections in CASES:
            servers = [Server(binary, scratch, programs, connections) for binary in (given.before, given.after)]
            times = [[], []]
            for _ in range(given.rounds):
                for server, kept in zip(servers, times):
                    kept.append(server.ask())
            cells = []
            for kept in times:
                cells += [statistics.median(kept), statistics.quantiles(kept, n=10)[0]]
            print(f"| {programs} | {connections} | " + " | ".join(f"{cell:.2f} ms" for cell in cells) + " |", flush=True)
            for server in servers:
                server.close()
    for other in others:
        other.kill()


if __name__ == "__main__":
    main()
