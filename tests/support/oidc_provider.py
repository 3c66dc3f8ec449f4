"""An OpenID Connect provider for tests: its keys, its tokens, and the authorization code flow with PKCE."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import threading
import time
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

AUDIENCE = "gpuctl"


class OidcProvider:
    """A provider whose user alice is logged in already: each request for a code succeeds at once.

    ``refusal`` is an error to answer instead; ``nonce`` replaces that of the next token.
    """

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.other = ec.generate_private_key(ec.SECP256R1())
        self.refusal = ""
        self.nonce = ""
        self.forms: list[dict[str, str]] = []
        self._asked: dict[str, str] = {}
        own = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/authorize":
                    self.send_response(302)
                    self.send_header("Location", own.redirect(_flat(parts.query)))
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.answer(200, own.description() if "openid-configuration" in self.path else own.keys())

            def do_POST(self) -> None:
                form = _flat(self.rfile.read(int(self.headers["Content-Length"])).decode())
                own.forms.append(form)
                token = own.exchange(form)
                self.answer(200 if token else 400, {"id_token": token} if token else {"error": "invalid_grant"})

            def answer(self, status: int, value: dict[str, Any]) -> None:
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def description(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "jwks_uri": f"{self.issuer}/keys",
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
        }

    def keys(self) -> dict[str, Any]:
        value = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**value, "kid": "one", "use": "sig", "alg": "RS256"}]}

    def token(self, **claims: Any) -> str:
        own = {"iss": self.issuer, "aud": AUDIENCE, "sub": "alice", "exp": time.time() + 3600, **claims}
        return jwt.encode(own, self.key, "RS256", headers={"kid": "one"})

    def redirect(self, asked: dict[str, str]) -> str:
        """Return where the browser is sent back to."""
        self._asked = asked
        answer = {"error": self.refusal} if self.refusal else {"code": "once"}
        return f"{asked['redirect_uri']}?{urlencode({**answer, 'state': asked['state']})}"

    def exchange(self, form: dict[str, str]) -> str | None:
        """Return the token for a code; None if the request does not belong to the one for the code."""
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        same = all(form[name] == self._asked[name] for name in ("client_id", "redirect_uri"))
        if not same or challenge != self._asked["code_challenge"] or form["code"] != "once":
            return None
        return self.token(nonce=self.nonce or self._asked["nonce"])


def _flat(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}
