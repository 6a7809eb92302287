"""Test set-up shared by all suites."""

import vendoring

# An editable install does not rebuild when a patch changes; this is quick when nothing did.
vendoring.ensure()
