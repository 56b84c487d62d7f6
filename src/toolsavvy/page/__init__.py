"""report.html: one page that holds everything it shows, for a browser without network; readable without scripts."""

from toolsavvy.page.elements import Cell, Drawing, Figure, Section, Table
from toolsavvy.page.rendering import Page

__all__ = ["Cell", "Drawing", "Figure", "Page", "Section", "Table"]
