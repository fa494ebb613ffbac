#!/usr/bin/env python3
"""Records what llama.cpp's server streams in the three formats that it speaks, as cassettes of the tests of `llm`.

  scripts/model.py with scripts/record-cassettes.py

Writes crates/llm/tests/cassettes/FORMAT/llama-cpp-KIND.sse: some text, calls of a tool, and an answer of a given shape. The
bytes are as they came, but for what is another each time: ids, times and speeds. What they mean is in a file beside each, which
is written by hand: read the difference before you believe it.
"""

import json
import os
import re
import urllib.request

URL = os.environ["SLIPWAY_LOCAL_MODEL"]
MODEL = os.environ["SLIPWAY_LOCAL_MODEL_NAME"]
CASSETTES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "crates", "llm", "tests", "cassettes")

# The model writes calls into fences, which are text to its server. With this weight on the token that begins a call it
# makes calls, and goes on to make them until it reaches its limit.
CALLS = [[151657, 21]]

TEXT = "Say good morning in German, with one emoji, and nothing else."
CALL = "Which files are in this directory? Use the tool."
SHAPE = "Name a fruit and its colour."
LONG = "Count from one to a hundred in words."
COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
FRUIT = {
    "type": "object",
    "properties": {"fruit": {"type": "string"}, "colour": {"enum": ["red", "yellow", "green"]}},
    "required": ["fruit", "colour"],
    "additionalProperties": False,
}
SHELL = {"name": "shell", "description": "Runs a command."}
CHAT_SHELL = {"type": "function", "function": SHELL | {"parameters": COMMAND}}
LIMIT = 40


def chat(said, **more):
    usage = {"include_usage": True}
    body = {"messages": [{"role": "user", "content": said}], "max_tokens": LIMIT, "stream_options": usage}
    return "/chat/completions", body | more


def responses(said, **more):
    content = [{"type": "input_text", "text": said}]
    item = {"type": "message", "role": "user", "content": content}
    return "/responses", {"input": [item], "max_output_tokens": LIMIT, "store": False} | more


def messages(said, **more):
    content = [{"type": "text", "text": said}]
    return "/messages", {"messages": [{"role": "user", "content": content}], "max_tokens": LIMIT} | more


REQUESTS = {
    "chat/llama-cpp-text": chat(TEXT),
    "chat/llama-cpp-calls": chat(CALL, tools=[CHAT_SHELL], logit_bias=CALLS),
    "chat/llama-cpp-written": chat(CALL, tools=[CHAT_SHELL]),
    "chat/llama-cpp-shape": chat(
        SHAPE, response_format={"type": "json_schema", "json_schema": {"name": "fruit", "schema": FRUIT}}
    ),
    "responses/llama-cpp-text": responses(TEXT),
    "responses/llama-cpp-calls": responses(
        CALL, tools=[{"type": "function", "parameters": COMMAND} | SHELL], logit_bias=CALLS
    ),
    # The server takes the schema in this format and does not hold the model to it.
    "responses/llama-cpp-shape": responses(
        SHAPE, text={"format": {"type": "json_schema", "name": "fruit", "schema": FRUIT}}
    ),
    "anthropic/llama-cpp-text": messages(TEXT),
    # The server drops the weight in this format, so that the model cannot be brought to a call.
    "anthropic/llama-cpp-written": messages(CALL, tools=[SHELL | {"input_schema": COMMAND}]),
    "anthropic/llama-cpp-length": messages(LONG, max_tokens=8),
}


def record(path, body):
    """The stream, byte for byte."""
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    body = {"model": MODEL, "stream": True, "temperature": 0} | body
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as answer:
        return answer.read().decode()


def scrubbed(stream):
    """The same without what is another each time. An id stays the same wherever it was."""
    ids = {}

    def plain(match):
        kind = match[1]
        return ids.setdefault(match[0], f"{kind}{len(ids) + 1}")

    stream = re.sub(r"\b(chatcmpl-|resp_|msg_|rs_|fc_|call_|toolu_)[A-Za-z0-9]{8,}", plain, stream)
    # Ids of calls may be letters alone.
    for name in re.findall(r'"(?:call_id|id)":"([A-Za-z0-9]{16,})"', stream):
        stream = stream.replace(name, ids.setdefault(name, f"id{len(ids) + 1}"))
    stream = re.sub(r'"(created|created_at|completed_at)":\d+', r'"\1":1763000000', stream)
    return re.sub(r'"(\w+_(?:ms|per_second))":[0-9.e+-]+', r'"\1":1.0', stream)


def main():
    for name, (path, body) in REQUESTS.items():
        with open(os.path.join(CASSETTES, name + ".sse"), "w", encoding="utf-8", newline="") as file:
            file.write(scrubbed(record(path, body)))
        print(name)


if __name__ == "__main__":
    main()
