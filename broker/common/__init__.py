"""What several packages use and none owns: errors, principals, slices of long work, patterns, HTTP, YAML."""
