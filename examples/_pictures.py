"""Save a figure twice, for light and for dark pages: picture.png and picture-dark.png."""

from pathlib import Path

from matplotlib.colors import to_rgba
from matplotlib.ticker import PercentFormatter

INK, PAPER = "#e6e6e6", "none"


def save(figure, path, dpi=150):
    """Save the figure as it is, then with light ink on no paper; returns both paths."""
    path = Path(path)
    dark = path.with_name(f"{path.stem}-dark{path.suffix}")
    figure.savefig(path, dpi=dpi)
    for artist in figure.findobj():
        for name in ("color", "edgecolor", "facecolor"):
            _lighten(artist, name)
    figure.patch.set_facecolor(PAPER)
    for axes in figure.axes:
        axes.patch.set_facecolor(PAPER)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_tick_params(colors=INK)
        if axes.get_legend() is not None:
            axes.get_legend().get_frame().set_alpha(0.0)
    figure.savefig(dark, dpi=dpi, transparent=True)
    return path, dark


def percent(*axes):
    """Fractions on these axes are shown as percent, as everywhere on screen."""
    for axis in axes:
        axis.set_major_formatter(PercentFormatter(1, decimals=0))


def _lighten(artist, name):
    """Grey and black become light; colours stay."""
    get, put = getattr(artist, f"get_{name}", None), getattr(artist, f"set_{name}", None)
    if get is None or put is None:
        return
    try:
        r, g, b, a = to_rgba(get())
    except (TypeError, ValueError):  # several colours at once, or none
        return
    if a and max(r, g, b) < 0.7 and max(r, g, b) - min(r, g, b) < 0.1:
        put((*to_rgba(INK)[:3], a))


def name(script, words):
    """Where the picture goes: the path that was given, or its place in the documentation."""
    script = Path(script).resolve()
    stem = script.stem.removesuffix("_picture").replace("_", "-")
    return Path(words[1]) if len(words) > 1 else script.parents[1] / "docs" / "images" / f"{stem}.png"
