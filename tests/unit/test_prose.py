"""Prose: every docstring, comment, message, test name and document names its subject (CONTRIBUTING.md, Prose)."""

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.prose import ROOT, files, passages_of

# Words that stand where a noun should: the reader has to find the noun. "one" counts as a pronoun, not as a number.
RIDDLES = re.compile(
    r"\b(?:what|whatever|who|whoever|whose|whom|those|others|ones|meanwhile|anew|so many|as many|of which|by which"
    r"|in which|that of|comes? (?:to|of|about)|came (?:to|of|about)|goes by|has no say|see[ns]? to|tells?|told"
    r"|any more|made up for|one(?=\s*(?:[.,;:)]|$"
    r"|(?:that|which|is|was|has|had|may|can|must|in|by|to|for|at|with|after|before|and|or)\b)))\b",
    re.IGNORECASE,
)
START = re.compile(r"(what|whatever|who|whoever|of|those|that|so many|how|where|as many)\b", re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[.:;])\s+|\n\n|\s\|\s")
MAX_IN_A_SENTENCE = 2
MAX_PER_1000, MAX_PER_1000_OF_A_PLACE, MAX_PER_1000_OF_DOCUMENTS = 5, 10, 4
MAX_WORDS_OF_DOCUMENTS, MAX_WORDS_OF_ARCHITECTURE = 34_342, 3_000
FEW_WORDS = 100  # a place with fewer words is not judged by its share


def shares(counts: Mapping[str, list[int]]) -> dict[str, float]:
    """Return the riddle words in 1,000 words of each place with enough words."""
    return {place: 1000 * riddles / words for place, (riddles, words) in counts.items() if words >= FEW_WORDS}


def words_of(document: Path) -> int:
    """Return the words of a document, without blocks of code and the marks of tables and pictures."""
    text = re.sub(r"^ *```.*?^ *```|<!--.*?-->", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r'<picture>.* alt="([^"]*)"></picture>', r"\1", text)
    return sum(re.search(r"\w", word) is not None for word in text.split())


def test_documents_stay_short() -> None:
    documents = [*ROOT.glob("*.md"), *(path for path in files() if ROOT / "docs" in path.parents)]
    assert sum(map(words_of, documents)) <= MAX_WORDS_OF_DOCUMENTS
    assert words_of(ROOT / "ARCHITECTURE.md") <= MAX_WORDS_OF_ARCHITECTURE


def test_every_text_names_its_subject() -> None:
    places = defaultdict[str, list[int]](lambda: [0, 0])
    breaches = []
    for path in files():
        documents = "documents" if path.suffix == ".md" else "code"
        for passage in passages_of(path):
            if passage.is_opening and START.match(passage.text):
                breaches.append(f"{passage.place}: begins with a pronoun or a question word: {passage.text[:80]}")
            riddles = len(RIDDLES.findall(passage.text))
            sentences = SENTENCE_END.split(passage.text) if riddles > MAX_IN_A_SENTENCE else ()
            breaches += [
                f"{passage.place}: words without a noun: {' '.join(sentence.split())}"
                for sentence in sentences
                if len(RIDDLES.findall(sentence)) > MAX_IN_A_SENTENCE
            ]
            for place in (str(path.parent.relative_to(ROOT)), documents, "all"):
                places[place][0] += riddles
                places[place][1] += len(passage.text.split())
    assert breaches == []
    per_1000 = shares(places)
    assert {place: share for place, share in per_1000.items() if share > MAX_PER_1000_OF_A_PLACE} == {}
    assert per_1000["all"] <= MAX_PER_1000
    assert per_1000["documents"] <= MAX_PER_1000_OF_DOCUMENTS
