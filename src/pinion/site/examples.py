"""One good value for every key whose text has a form of its own: what a message gives as its fix instead of a regular expression."""

from __future__ import annotations

#: By key; of a list, one item of it.
EXAMPLES: dict[str, str] = {
    "suites": "trixie",
    "components": "main",
    "keyring": "/usr/share/keyrings/example-archive-keyring.gpg",
    "domain": "rack.example.org",
    "reload": "nginx.service",
    "program": "/usr/local/bin/kubelet",
    "version": '"580.95.05"',
    "mig": "3g.40gb",
    "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "key": "2t53vqyNuHrkgtfAmRvGWIyj1rm0cIKCf6C0Oy9IbVU=",
    "signature": "YvPnDLaYrrW2mbiUO1Umf/O9O3aOoFdybkRgOhkbwK8T3yvo0E0EvID+wmZss7qZvsQVaYZFd7mTwKRtN9a4Cw==",
}
