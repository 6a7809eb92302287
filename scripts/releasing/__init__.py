"""Building a release twice, looking into it, and installing it afresh (scripts/release.sh).

Start with `release.release`. CONTRIBUTING.md tells how to use it.
"""
