#!/usr/bin/env python3
"""Compares the fake forge of crates/testkit with what the makers of the real ones publish, and our requests with it.

  scripts/check-forges.py

The conformance suite runs, and each request with its answer is held to the description of that route: paths, queries, bodies
without unknown or missing fields, types, and every field of an answer. GitHub's is its OpenAPI document (`@octokit/openapi`),
Gitea's are the types that are made from its own (`gitea-js`), both from the registry of npm. GitLab puts none where it could
be had from, which is said. Without npm or a network nothing is compared, and that is no failure.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

HOME = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "slipway" / "forges"
ROOT = pathlib.Path(__file__).resolve().parent.parent
GITHUB = ("@octokit/openapi", "23.0.2", "package/generated/api.github.com.json")
GITEA = ("gitea-js", "1.23.0", "package/dist/index.d.ts")

# Statuses that every route may answer with, described or not: who asks is not known or may not, too much was asked, it is not well.
ANYWHERE = {401, 403, 404, 429, 500, 502, 503}


def published(name, version, member):
    """One file of a package, fetched once."""
    folder = HOME / f"{name.replace('/', '-').lstrip('@')}-{version}"
    place = folder / pathlib.PurePosixPath(member).name
    if not place.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "pack", "--silent", f"{name}@{version}", "--pack-destination", str(folder)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        packed = next(folder.glob("*.tgz"))
        with tarfile.open(packed) as archive:
            place.write_bytes(archive.extractfile(member).read())
        packed.unlink()
    return place.read_text(encoding="utf-8")


class OpenApi:
    """GitHub's description: version 3 of OpenAPI."""

    def __init__(self, text):
        self.document = json.loads(text)

    def routes(self):
        for template, methods in self.document["paths"].items():
            for method, route in methods.items():
                yield method.upper(), template, route

    def resolve(self, schema):
        while "$ref" in schema:
            found = self.document
            for part in schema["$ref"].split("/")[1:]:
                found = found[part]
            schema = found
        return schema

    def queries(self, route):
        for parameter in map(self.resolve, route.get("parameters", [])):
            if parameter["in"] == "query":
                yield parameter["name"], parameter["schema"]

    def body(self, route):
        content = self.resolve(route.get("requestBody", {})).get("content", {})
        return content.get("application/json", {}).get("schema")

    def answers(self, route):
        for status, answer in route["responses"].items():
            content = self.resolve(answer).get("content", {})
            kind = next((content[kind] for kind in content if "json" in kind), {})
            yield int(status), kind.get("schema")

    def wrong(self, schema, value, where, whole):
        """What is wrong with a value. Answers of the fake are parts, so that only of a request all that is required must be there."""
        schema = self.resolve(schema)
        if value is None and (schema.get("nullable") or "null" in listed(schema.get("type"))):
            return []
        for joint in ("oneOf", "anyOf"):
            if joint in schema and "properties" not in schema:
                each = [self.wrong(one, value, where, whole) for one in schema[joint]]
                return min(each, key=len)
        known = dict(schema.get("properties", {}))
        for part in schema.get("allOf", []):
            known.update(self.resolve(part).get("properties", {}))
        kinds = listed(schema.get("type")) or (["object"] if known else [])
        if kinds and not any(is_of(kind, value) for kind in kinds):
            return [f"{where} is {json.dumps(value)[:60]} and not {' or '.join(kinds)}"]
        if "enum" in schema and value not in schema["enum"]:
            return [f"{where} is {json.dumps(value)} and none of {schema['enum']}"]
        found = []
        if isinstance(value, dict) and known:
            for key, inner in value.items():
                if key in known:
                    found += self.wrong(known[key], inner, f"{where}.{key}", whole)
                elif schema.get("additionalProperties") in (None, False):
                    found.append(f"{where} has no {key}")
            if whole:
                found += [f"{where} lacks {key}" for key in schema.get("required", []) if key not in value]
        if isinstance(value, list):
            for item in value:
                found += self.wrong(schema.get("items", {}), item, f"{where}[]", whole)
        return found


class Types:
    """Gitea's description: TypeScript that is made from version 2 of OpenAPI, where nothing is said of what is required."""

    def __init__(self, text):
        self.text = text
        self.interfaces = {}
        for name, fields in re.findall(r"^interface (\w+) \{\n(.*?)^\}", text, re.M | re.S):
            self.interfaces[name] = self.fields(fields)
        self.aliases = dict(re.findall(r"^type (\w+) = (.+?);$", text, re.M))

    @staticmethod
    def fields(text):
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        return {name.strip("'\""): kind for name, kind in re.findall(r"^\s*([\w'\"-]+)\??: (.+);$", text, re.M)}

    def routes(self):
        pattern = r"@request (\w+):(\S+)\n(?:(?!@request).)*?\*/\s+\w+: \((.*?)\) => Promise<HttpResponse<(.+?), "
        for method, template, arguments, answer in re.findall(pattern, self.text, re.S):
            yield method, template, (arguments, answer)

    def queries(self, route):
        found = re.search(r"query\??: \{(.*?)\n\s+\}", route[0], re.S)
        yield from (self.fields(found.group(1)) if found else {}).items()

    def body(self, route):
        found = re.search(r"\bbody: (\w+)", route[0])
        return found.group(1) if found else None

    def answers(self, route):
        yield from ((status, route[1]) for status in (200, 201, 204))
        yield from ((status, None) for status in (301, 302, 307, 400, 405, 409, 412, 422, 423))

    def wrong(self, kind, value, where, whole):
        kind = self.aliases.get(kind, kind).strip()
        if kind.endswith("[]"):
            if value is None:
                return []
            if not isinstance(value, list):
                return [f"{where} is no list"]
            return [one for item in value for one in self.wrong(kind[:-2], item, f"{where}[]", whole)]
        if kind in self.interfaces:
            if value is None and not whole:
                return []
            if not isinstance(value, dict):
                return [f"{where} is {json.dumps(value)[:60]} and no {kind}"]
            known, found = self.interfaces[kind], []
            for key, inner in value.items():
                found += self.wrong(known[key], inner, f"{where}.{key}", whole) if key in known else [f"{where} has no {key}"]
            return found
        words = re.findall(r"['\"](.*?)['\"]", kind)
        if words:
            return [] if value in words else [f"{where} is {json.dumps(value)} and none of {words}"]
        if kind in ("string", "number", "boolean"):
            name = "number" if kind == "number" else kind
            fine = is_of(name, value) or (value is None and not whole)
            return [] if fine else [f"{where} is {json.dumps(value)[:60]} and no {kind}"]
        return []


def listed(value):
    return value if isinstance(value, list) else [value] if value else []


def is_of(kind, value):
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return {
        "string": isinstance(value, str),
        "integer": number and float(value).is_integer(),
        "number": number,
        "boolean": isinstance(value, bool),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
        "null": value is None,
    }.get(kind, True)


def parsed(text):
    """A value of a query as the type that it is written as."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def route_of(description, method, path):
    """The route that fits; the one with the fewest open places, as there may be several."""
    found = None
    for known, template, route in description.routes():
        parts = template.strip("/").split("/")
        open_places = sum(part.startswith("{") for part in parts)
        fits = known == method and len(parts) == len(path)
        if fits and all(part.startswith("{") or part == asked for part, asked in zip(parts, path)):
            if found is None or open_places < found[0]:
                found = (open_places, template, route)
    return found and found[1:]


def compare(description, entry, path):
    """What is wrong with one request and its answer."""
    found = route_of(description, entry["method"], path)
    if found is None:
        return [f"{entry['method']} /{'/'.join(path)}: there is no such route"]
    template, route = found
    wrong = []
    queries = dict(description.queries(route))
    for name, text in entry["query"]:
        if name not in queries:
            wrong.append(f"the query has no {name}")
        else:
            each = [description.wrong(queries[name], value, f"?{name}", True) for value in (text, parsed(text))]
            wrong += min(each, key=len)
    body = description.body(route)
    # What our client sends is as the forge wants it, unless the test is about what is not.
    if entry["body"] is not None and entry["status"] < 400:
        wrong += description.wrong(body, entry["body"], "body", True) if body else ["it takes no body"]
    answers = dict(description.answers(route))
    status = entry["status"]
    if status not in answers and status not in ANYWHERE:
        wrong.append(f"it does not answer {status}")
    if status < 300 and answers.get(status):
        wrong += description.wrong(answers[status], entry["answer"], "answer", False)
    return [f"{entry['method']} {template}: {one}" for one in wrong]


def main():
    if shutil.which("npm") is None:
        print("check-forges: there is no npm, so nothing is compared")
        return 0
    try:
        github, gitea = OpenApi(published(*GITHUB)), Types(published(*GITEA))
    except (subprocess.SubprocessError, OSError, StopIteration) as error:
        print(f"check-forges: what the forges publish cannot be had, so nothing is compared: {error}")
        return 0
    known = {"github": (github, ["api", "v3"]), "gitea": (gitea, ["api", "v1"])}
    with tempfile.TemporaryDirectory() as directory:
        command = ["cargo", "nextest", "run", "--locked", "--all-features", "-p", "forge", "-E"]
        command += ["test(/^conformance::/) or test(/^github::/) or test(/^logins::/)"]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "SLIPWAY_FORGE_RECORD": directory}, check=True)
        lines = [line for file in pathlib.Path(directory).iterdir() for line in file.read_text(encoding="utf-8").splitlines()]
    wrong, compared, left = {}, {}, {}
    for entry in map(json.loads, lines):
        forge, path = entry["forge"], entry["path"]
        description, base = known.get(forge, (None, None))
        if description is None or path[: len(base)] != base:
            reason = "GraphQL" if forge == "github" else f"{forge} publishes nothing that could be had"
            left[reason] = left.get(reason, 0) + 1
            continue
        compared[forge] = compared.get(forge, 0) + 1
        # A path that ends with a slash has an empty last part.
        path = [part for part in path[len(base) :] if part]
        for one in compare(description, entry, path):
            wrong[f"{forge}: {one}"] = wrong.get(f"{forge}: {one}", 0) + 1
    for one, times in sorted(wrong.items()):
        print(f"{one} ({times} times)")
    for reason, times in sorted(left.items()):
        print(f"not compared: {times} ({reason})")
    print("compared: " + ", ".join(f"{count} of {forge}" for forge, count in sorted(compared.items())))
    if set(compared) != set(known):
        print("check-forges: nothing was recorded of one of the forges")
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
