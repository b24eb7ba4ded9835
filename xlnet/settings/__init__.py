"""Every setting, declared once, by subject: flags and JSON keys are derived from them."""
