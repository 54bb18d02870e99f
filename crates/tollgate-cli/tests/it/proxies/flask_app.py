"""A Flask app, which decodes an escaped slash before it routes. Its first line is its port."""

from flask import Flask
from werkzeug.serving import make_server

app = Flask(__name__)


@app.route("/login", methods=["GET", "POST"])
def login():
    return "the login"


@app.route("/admin/")
def admin():
    return "the admin"


@app.route("/", defaults={"rest": ""}, methods=["GET", "POST"])
@app.route("/<path:rest>", methods=["GET", "POST"])
def other(rest):
    return f"other: {rest}"


server = make_server("127.0.0.1", 0, app, threaded=True)
print(server.port, flush=True)
server.serve_forever()
