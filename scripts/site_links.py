"""A hook of mkdocs (mkdocs.yml): links of docs/ that lead to other files of the repository. GitHub follows them; a site has only docs/.
With repo_url and edit_uri they lead to the repository, without them they become the file's path."""
import os
import re

LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:)([^()\s#]+)(#[^()\s]*)?\)")


def on_page_markdown(markdown, page, config, **_):
    folder = os.path.dirname(page.file.src_path)

    def outside(match):
        text, target, anchor = match.group(1), match.group(2), match.group(3) or ""
        path = os.path.normpath(os.path.join("docs", folder, target))
        if path.startswith("docs" + os.sep):
            return match.group(0)
        if config.repo_url:
            return f"[{text}]({config.repo_url.rstrip('/')}/blob/HEAD/{path}{anchor})"
        return f"{text} (`{path}`)" if path not in text else text
    return LINK.sub(outside, markdown)
