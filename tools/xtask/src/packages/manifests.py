"""Reads manifests of Kubernetes from standard input, holds them to its schemas, prints them as JSON.

The argument is the oldest version of Kubernetes that they are for; the newest one is a second. With
two arguments, a schema and a file of values, it holds the values to the schema instead.
"""

import json
import sys

import jsonschema
import kubernetes_validate
import yaml


def absent(rule, values, at=""):
    """The names of values that the schema has and the file of values has not."""
    for key, inner in rule.get("properties", {}).items():
        name = f"{at}{key}"
        if key not in values:
            # What every chart has, and no file of values.
            if name != "global":
                yield name
        elif isinstance(values[key], dict) and values[key]:
            yield from absent(inner, values[key], f"{name}.")


def lost(document, read, at=""):
    """Where a document has a field that its model does not know."""
    if isinstance(document, dict) and isinstance(read, dict):
        for key, inner in document.items():
            yield from [f"{at}/{key}"] if key not in read else lost(inner, read[key], f"{at}/{key}")
    elif isinstance(document, list) and isinstance(read, list):
        for index, pair in enumerate(zip(document, read)):
            yield from lost(*pair, f"{at}/{index}")


def check(document, versions):
    """Raises or exits where a document is not valid."""
    if document["apiVersion"] == "monitoring.coreos.com/v1":
        # A second to import.
        from cloudcoil.models.prometheus_operator import v1

        read = getattr(v1, document["kind"]).model_validate(document)
        unknown = list(lost(document, read.model_dump(by_alias=True, exclude_unset=True)))
        if unknown:
            sys.exit(f"{document['kind']}: unknown: {unknown}")
        return
    for version in versions:
        try:
            # Strict: a misspelt field is an error, which a cluster would ignore.
            kubernetes_validate.validate(document, version, strict=True)
        except jsonschema.ValidationError as error:
            # Without the schema, which is long.
            at = "/".join(str(part) for part in error.absolute_path)
            sys.exit(f"{document['kind']}, Kubernetes {version}: {at}: {error.message}")


if len(sys.argv) == 3:
    with open(sys.argv[1]) as schema, open(sys.argv[2]) as values:
        schema, values = json.load(schema), yaml.safe_load(values)
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(values, schema, jsonschema.Draft7Validator)
    missing = list(absent(schema, values))
    if missing:
        sys.exit(f"in the schema alone: {missing}")
else:
    documents = [document for document in yaml.safe_load_all(sys.stdin) if document]
    for document in documents:
        check(document, [sys.argv[1], kubernetes_validate.latest_version()])
    json.dump(documents, sys.stdout)
