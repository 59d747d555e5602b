#!/usr/bin/env python3
"""How long the list of agents takes that a client asks for, by how many rules and agents a person has configured.

  rules.py --everturn PATH [--patience SECONDS]

Each case has a server of its own, which is asked once: what is found out is remembered. Of the rules, every third one denies,
every third allows and every third asks; each agent has two rules of its own. Where the answer takes longer than the patience
(60 seconds), the server is told to end, and it is said how long that took.
"""
import argparse, base64, json, os, pathlib, re, socket, subprocess, tempfile, time, urllib.request

PASSWORD = "bench"
AUTH = "Basic " + base64.b64encode(f"opencode:{PASSWORD}".encode()).decode()
KINDS = {
    "commands": lambda at: ("bash", f"run{at} *"),
    "files by their ending": lambda at: ("edit", f"*.{at}x"),
    "tools": lambda at: (f"server_tool{at}", "*"),
    "words anywhere": lambda at: ("bash", f"*word{at}*"),
}
CASES = [
    ("commands", 100, 0), ("commands", 800, 0), ("commands", 3200, 0), ("commands", 1000, 100),
    ("files by their ending", 800, 0), ("files by their ending", 3200, 0),
    ("tools", 800, 0), ("tools", 3200, 0), ("words anywhere", 25, 0),
]


def configuration(kind, rules, agents):
    permission = {}
    for at in range(rules):
        name, pattern = KINDS[kind](at)
        permission.setdefault(name, {})[pattern] = ["deny", "allow", "ask"][at % 3]
    own = {f"agent{at}": {"permission": {"webfetch": "deny", "bash": {f"own{at} *": "ask"}}} for at in range(agents)}
    return {"permission": permission, "agent": own}


def measure(binary, scratch, case, patience):
    home = pathlib.Path(tempfile.mkdtemp(dir=scratch))
    (home / "project").mkdir()
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.json").write_text(json.dumps(configuration(*case)))
    env = {k: v for k, v in os.environ.items() if "proxy" not in k.lower() and not k.startswith("XDG_")}
    env.update(HOME=str(home), EVERTURN_DATA=str(home / "data"), OPENCODE_SERVER_PASSWORD=PASSWORD, OPENCODE_DISABLE_MODELS_FETCH="1")
    server = subprocess.Popen(
        [os.path.abspath(binary), "serve", "--port", "0"], env=env, cwd=home / "project", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    address = re.search(r"http://\S+", server.stdout.readline())[0]
    request = urllib.request.Request(f"{address}/agent", headers={"authorization": AUTH})
    began = time.perf_counter()
    try:
        with urllib.request.urlopen(request, timeout=patience) as answer:
            size = len(answer.read())
        answered = f"{(time.perf_counter() - began) * 1000:.0f} ms | {size / 1000:.0f} kB"
    except (TimeoutError, socket.timeout):
        answered = f"more than {patience:.0f} s | "
    began = time.perf_counter()
    server.terminate()
    try:
        server.wait(timeout=patience)
        return f"{answered} | {(time.perf_counter() - began) * 1000:.0f} ms"
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
        return f"{answered} | more than {patience:.0f} s"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--everturn", required=True)
    arguments.add_argument("--patience", type=float, default=60)
    given = arguments.parse_args()
    print("| rules for | rules | own agents | answer | size | end of the server |")
    print("|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as scratch:
        for case in CASES:
            kind, rules, agents = case
            print(f"| {kind} | {rules} | {agents} | {measure(given.everturn, scratch, case, given.patience)} |", flush=True)


if __name__ == "__main__":
    main()
