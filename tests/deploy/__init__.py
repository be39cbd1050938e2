"""Dashboards, alerts, containers and services say what the broker has."""
