"""What the site of docs/ is built with, without MkDocs: `make docs` builds it."""
