"""Modules that several packages use: errors, principals, slices of long work, patterns, HTTP, YAML."""
