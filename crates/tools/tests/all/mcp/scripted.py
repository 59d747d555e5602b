"""An MCP server over standard input and output that behaves as badly as its arguments say.

Usage: scripted.py MODE [FILE]. What happens in each mode is said where it happens; FILE is where some of them leave
a trace for the test.
"""

import json
import os
import signal
import sys
import threading
import time

mode = sys.argv[1]
trace = sys.argv[2] if len(sys.argv) > 2 else None
out = sys.stdout.buffer


def send(message):
    out.write(json.dumps(message).encode() + b"\n")
    out.flush()


def answer(request, result):
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def note(words):
    with open(trace, "a") as file:
        file.write(words + "\n")


def tool(name, **more):
    return {"name": name, "description": "Does " + name, "inputSchema": {"type": "object"}, **more}


def flood(stream, block):
    try:
        while True:
            stream.write(block)
    except BrokenPipeError:
        os._exit(0)


TOOLS = {
    "names": [tool("a.b"), tool("a_b"), tool("a/b"), tool("x" * 100), tool("a.b")],
    "schemas": [
        tool("huge", inputSchema={"type": "object", "properties": {"p" * 100_000: {}}}),
        tool("wrong", inputSchema=["not", "an", "object"]),
        {"name": "bare"},
        tool("long", description="d\x00\x1b" + "e" * 100_000),
        {"title": "no name at all"},
    ],
}

changed = False
waiting = []


def tools():
    if mode == "changing":
        return [tool("second" if changed else "first")]
    return TOOLS.get(mode, [tool(name) for name in ["echo", "die", "slow", "other", "env", "fail", "mute"]])


def list_tools(request):
    if mode == "pages":
        page = int(request["params"].get("cursor", "0"))
        more = {"nextCursor": str(page + 1)} if page < 4 else {}
        answer(request, {"tools": [tool(f"t{page}")], **more})
    elif mode == "endless":
        answer(request, {"tools": [tool("again")], "nextCursor": "same"})
    else:
        answer(request, {"tools": tools()})


def call(request):
    global changed
    name, arguments = request["params"]["name"], request["params"].get("arguments", {})
    if name == "echo":
        if mode == "order":
            # Two calls are answered in the wrong order.
            waiting.append(request)
            if len(waiting) == 2:
                for held in reversed(waiting):
                    answer(held, text(held["params"]["arguments"]["message"]))
            return
        if mode == "twice":
            answer(request, text("first"))
            answer(request, text("second"))
            return
        if mode == "wrong":
            # Ids that nobody gave, then the right one.
            for wrong in [4711, "x", None, -1, 1.5, {"a": 1}]:
                send({"jsonrpc": "2.0", "id": wrong, "result": text("wrong")})
            answer(request, text("right"))
            return
        if mode == "asking":
            send({"jsonrpc": "2.0", "id": "p1", "method": "ping"})
            send({"jsonrpc": "2.0", "id": "r1", "method": "roots/list"})
            send({"jsonrpc": "2.0", "id": "s1", "method": "sampling/createMessage", "params": {}})
            waiting.append(request)
            return
        if mode == "noise":
            # Greetings and empty lines between messages are forgiven.
            out.write(b"hello, I am a server\n\n\xff\xfe\x00\n{\"half\": \n")
            send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
            send({"jsonrpc": "2.0", "method": "notifications/unheard_of"})
        answer(request, text(arguments.get("message", "")))
    elif name == "die":
        print("the last words", file=sys.stderr, flush=True)
        if mode == "orphan":
            # A child that holds the output open.
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                note(str(os.getpid()))
                time.sleep(1000)
            while not os.path.exists(trace) or not open(trace).read().strip():
                time.sleep(0.01)
        os._exit(3)
    elif name == "slow":
        # Progress until somebody cancels it.
        waiting.append(request)
        token = request["params"]["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": 1, "total": 4, "message": "working"}
        send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        if mode == "spinning":
            while True:
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    elif name == "env":
        answer(request, text(json.dumps(dict(os.environ))))
    elif name == "fail":
        send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32000, "message": "will not"}})
    elif name == "first":
        changed = True
        answer(request, text("ok"))
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    elif name == "mute":
        pass
    else:
        answer(request, text("did " + name))


def handle(message):
    method = message.get("method")
    if method == "initialize":
        if mode == "silent":
            return
        version = {"future": "2099-01-01", "old": "2024-11-05"}.get(mode, message["params"]["protocolVersion"])
        server = {"name": "scripted", "version": "1"}
        answer(message, {"protocolVersion": version, "capabilities": {"tools": {}, "prompts": {}}, "serverInfo": server})
    elif method == "tools/list":
        list_tools(message)
    elif method == "tools/call":
        call(message)
    elif method == "resources/read" and message["params"]["uri"] == "x://notes":
        text_part = {"uri": "x://notes", "mimeType": "text/plain", "text": "the notes"}
        picture = {"uri": "x://notes/dot.png", "mimeType": "image/png", "blob": "AAEC"}
        other = {"uri": "x://notes/raw.bin", "blob": "AAEC"}
        answer(message, {"contents": [text_part, picture, other]})
    elif method == "resources/read":
        send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32002, "message": "no such resource"}})
    elif method == "prompts/list":
        arguments = [{"name": "who", "required": True}, {"name": "how"}]
        answer(message, {"prompts": [{"name": "greet", "description": "greets", "arguments": arguments}]})
    elif method == "prompts/get":
        given = message["params"]["arguments"]
        if "who" not in given:
            send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "who?"}})
        else:
            lines = ["SAY:hello " + given["who"], "how: " + given.get("how", "") + " !`echo never >> never` $1"]
            texts = [{"role": "user", "content": {"type": "text", "text": line}} for line in lines]
            picture = {"role": "user", "content": {"type": "image", "mimeType": "image/png", "data": "AAEC"}}
            answer(message, {"messages": [texts[0], picture, texts[1]]})
    elif method == "ping":
        answer(message, {})
    elif method == "notifications/initialized":
        if mode == "deaf":
            # Alive, but reads nothing any more; one list is still answered.
            request = json.loads(sys.stdin.readline())
            answer(request, {"tools": tools()})
            note("deaf")
            time.sleep(1000)
        if mode == "garbage":
            flood(out, b"garbage\n" * 1000)
        if mode == "endless-line":
            flood(out, b"x" * 65536)
        if mode == "shouting":
            threading.Thread(target=flood, args=(sys.stderr.buffer, b"shout " * 10000), daemon=True).start()
    elif method == "notifications/cancelled":
        note("cancelled " + json.dumps(message["params"]["requestId"]))
    elif "result" in message or "error" in message:
        # Answers to our own questions are given back as the result of the call.
        waiting.append(message)
        if len(waiting) == 4:
            request, *answers = waiting
            answer(request, text(json.dumps(answers)))


if mode == "crash":
    print("cannot start", file=sys.stderr, flush=True)
    sys.exit(7)
if mode in ["stubborn", "detached"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "detached" and os.fork() == 0:
    # As a browser that a server starts: in a session of its own, with nothing that says whose it is.
    os.setsid()
    note(str(os.getpid()))
    null = os.open("/dev/null", os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.execve("/bin/sh", ["sh", "-c", "trap '' TERM HUP; while :; do sleep 1; done"], {"PATH": os.environ["PATH"]})
if mode == "stubborn":
    note(str(os.getpid()))

for line in sys.stdin:
    handle(json.loads(line))

if mode == "stubborn":
    # Neither the end of its input nor TERM makes it end.
    while True:
        time.sleep(1000)
