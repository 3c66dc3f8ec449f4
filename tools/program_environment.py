"""Runtime hook of the single-file program: the environment that it passes to git and to credential plugins.

The bootloader sets LD_LIBRARY_PATH to the directory of the bundled libraries. The loader has read it by now, so only
child processes would use it, and these would load our OpenSSL instead of their own.
"""

import os

_before = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
if _before is None:
    os.environ.pop("LD_LIBRARY_PATH", None)
else:
    os.environ["LD_LIBRARY_PATH"] = _before

# The bundled OpenSSL searches for certificates where Debian and Ubuntu have them; Red Hat and SUSE have them elsewhere.
if not {"SSL_CERT_FILE", "SSL_CERT_DIR"} & os.environ.keys() and not os.path.exists("/usr/lib/ssl/certs"):
    for _file in ("/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"):
        if os.path.exists(_file):
            os.environ["SSL_CERT_FILE"] = _file
            break
