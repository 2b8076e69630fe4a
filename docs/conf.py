# SPDX-License-Identifier: Apache-2.0
"""The book: one static site and man pages, from the pages below this folder and the comments of the
public headers. `./dev docs` builds both."""
import hashlib
import html
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent

project = "Ringfire"
version = release = re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text())[1]
author = "the authors of Ringfire"
project_copyright = author
language = "en"

extensions = ["myst_parser", "breathe", "sphinx_copybutton", "sphinx_inline_tabs"]
exclude_patterns = ["pictures"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
highlight_language = "text"
breathe_default_project = "ringfire"
headers = "".join(p.read_text() for p in sorted((ROOT / "include").rglob("*.h")))
headers = hashlib.sha256(headers.encode()).hexdigest()
breathe_domain_by_extension = {"h": "c"}
breathe_show_include = False
# A shell's prompt is not copied with a command.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_here_doc_delimiter = "EOF"

html_theme = "furo"
html_title = "Ringfire %s" % release
html_static_path = ["static"]
html_css_files = ["book.css"]
html_js_files = ["book.js"]
html_copy_source = False
html_show_sphinx = False


def sentence_of(path):
    """What a page that is a man page as well says of itself: its first line below the heading, or
    the first sentence of the header that it shows."""
    lines = [line for line in path.read_text().splitlines() if line.strip()]
    if not lines[1].startswith("```{doxygenfile}"):
        begun = re.sub(r"^`ringfire[^`]*` ", "", lines[1])
        return re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", begun)
    header = (ROOT / "include/ringfire" / (path.stem + ".h")).read_text()
    comment = re.search(r"@file\n(.*?)\*/", header, re.S)[1]
    return re.split(r"\.\s", re.sub(r"\s*\n \* ?|`", " ", " \n" + comment), 1)[0].strip()


def man_page(path):
    """(document, name, description, authors, section) of a page that is a man page as well."""
    stem = path.stem.replace("index", "")
    separator, section = ("-", 1) if path.parent.name == "commands" else ("_", 3)
    return (str(path.relative_to(HERE).with_suffix("")),
            "ringfire" + (separator + stem if stem else ""), sentence_of(path).rstrip("."), "",
            section)


man_pages = [man_page(page) for folder in ("commands", "c-api")
             for page in sorted((HERE / "reference" / folder).glob("*.md"))]
man_make_section_directory = True


def headers_as_xml(app, config):
    """Runs Doxygen beside the output, once for all builders."""
    out = pathlib.Path(app.outdir).parent / "doxygen"
    config.breathe_projects = {"ringfire": str(out / "xml")}
    index, sources = out / "xml/index.xml", [HERE / "Doxyfile", *(ROOT / "include").rglob("*.h")]
    if index.exists() and index.stat().st_mtime > max(p.stat().st_mtime for p in sources):
        return
    out.mkdir(parents=True, exist_ok=True)
    settings = "@INCLUDE = %s\nINPUT = %s\nSTRIP_FROM_PATH = %s\nOUTPUT_DIRECTORY = %s\n" % (
        HERE / "Doxyfile", ROOT / "include/ringfire", ROOT / "include", out)
    subprocess.run(["doxygen", "-"], input=settings, text=True, check=True)


def inline_pictures(app, document):
    """Puts an SVG into the page itself, where it has the theme's colours, those of the dark mode
    too. Its alternative text is what a screen reader says."""
    from docutils import nodes
    for image in list(document.findall(nodes.image)):
        if app.builder.format != "html" or not image["uri"].endswith(".svg"):
            continue
        text = (pathlib.Path(app.srcdir) / image["uri"]).read_text()
        text = re.sub(r"\A.*?(?=<svg)", "", text, flags=re.S)
        label = 'role="img" aria-label="%s"' % html.escape(image.get("alt", ""))
        picture = '<div class="picture">%s</div>' % text.replace("<svg", "<svg " + label, 1)
        image.replace_self(nodes.raw("", picture, format="html"))


def lift_blocks(app, document):
    """Takes lists out of paragraphs, where Breathe leaves them and man pages cannot have them."""
    from docutils import nodes

    def is_block(node):
        return isinstance(node, nodes.Body) and not isinstance(node, nodes.Inline)

    for paragraph in list(document.findall(nodes.paragraph)):
        if not any(map(is_block, paragraph.children)):
            continue
        parts = []
        for child in paragraph.children:
            if is_block(child):
                parts.append(child)
            elif parts and isinstance(parts[-1], nodes.paragraph):
                parts[-1] += child
            else:
                parts.append(nodes.paragraph("", "", child))
        paragraph.replace_self(parts)


def name_outside(app, environment, node, content):
    """A link to a file of the tree that is no page becomes the file's name."""
    from docutils import nodes
    page = HERE / environment.doc2path(node.get("refdoc", ""), base=False)
    target = (page.parent / node.get("reftarget", "").partition("#")[0]).resolve()
    if target.exists() and ROOT in target.parents and HERE not in target.parents:
        return nodes.literal("", str(target.relative_to(ROOT)))
    return None


def join_scripts(folder):
    """Some packages of the theme have a script that imports another one, which browsers refuse in a
    page that is read from a disk: without it nobody could choose the dark mode."""
    script, imported = folder / "scripts/furo.js", folder / "scripts/gumshoe-patched.js"
    begin = 'import Gumshoe from "./gumshoe-patched.js";\n'
    if imported.exists() and script.read_text().startswith(begin):
        script.write_text(imported.read_text() + script.read_text().removeprefix(begin))


def complete_styles(folder):
    """Debian 12's package of the theme imports a file of a web server of Debian's, and has lost the
    rules for readers whose system is dark."""
    style = folder / "styles/furo.css"
    text = style.read_text()
    for line, path in re.findall(r"(@import url\((/javascript/[^)]*)\);)", text):
        text = text.replace(line, pathlib.Path("/usr/share" + path).read_text())
    dark = re.search(r'@media not print \{(\s*body\[data-theme="dark"\].*?\}\s*\})', text, re.S)
    if "prefers-color-scheme" not in text and dark:
        text += "@media screen and (prefers-color-scheme: dark) {%s\n" % dark[1].replace(
            '[data-theme="dark"]', ':not([data-theme="light"])')
    style.write_text(text)


def repair_theme(app, exception):
    if not exception and app.builder.format == "html":
        join_scripts(pathlib.Path(app.outdir) / "_static")
        complete_styles(pathlib.Path(app.outdir) / "_static")


def setup(app):
    # Pages know the names that others declare: another header makes all of them be read anew.
    app.add_config_value("headers", "", "env")
    app.connect("build-finished", repair_theme)
    app.connect("missing-reference", name_outside)
    app.connect("config-inited", headers_as_xml)
    app.connect("doctree-resolved", lambda app, document, name: inline_pictures(app, document))
    app.connect("doctree-resolved", lambda app, document, name: lift_blocks(app, document))
