"""Reads manifests of Kubernetes from standard input, holds them to its schemas, prints them as JSON.

With two arguments, a schema and a file of values, it holds the values to the schema instead.
"""

import json
import sys

import jsonschema
import kubernetes_validate
import yaml

if len(sys.argv) == 3:
    with open(sys.argv[1]) as schema, open(sys.argv[2]) as values:
        schema, values = json.load(schema), yaml.safe_load(values)
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(values, schema, jsonschema.Draft7Validator)
    unknown = set(values) ^ (set(schema["properties"]) - {"global"})
    if unknown:
        sys.exit(f"in the schema or in the values alone: {sorted(unknown)}")
    print(len(values))
else:
    documents = [document for document in yaml.safe_load_all(sys.stdin) if document]
    for document in documents:
        try:
            # Strict: a misspelt field is an error, which a cluster would ignore.
            newest = kubernetes_validate.latest_version()
            kubernetes_validate.validate(document, newest, strict=True)
        except jsonschema.ValidationError as error:
            # Without the schema, which is long.
            at = "/".join(str(part) for part in error.absolute_path)
            sys.exit(f"{document['kind']}: {at}: {error.message}")
    json.dump(documents, sys.stdout)
