"""Diagrams of a playbook: chart, layout, and the SVG, Mermaid and Graphviz formats."""
