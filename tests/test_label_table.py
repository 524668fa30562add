"""Label tables: lossless in every form and file, and clear about everything they cannot read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import UserError
from tacit.label_table import Form, LabelTable, LabelTableError, read_label_table, write_label_table
from tacit.labels import Labels
from tacit.table_forms import escape, unescape

FORMS: tuple[Form, ...] = ("lists", "wide", "long")
SUFFIXES = (".parquet", ".csv", ".tsv")
NAMES = st.text(
    st.one_of(st.sampled_from("|%725C,;\"\n\r\t \\'#ä犬"), st.characters(exclude_categories=["Cs"])), min_size=1
)


def _write(folder: Path, content: str, name: str = "labels.csv", **declared: Any) -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    if declared:
        (folder / f"{name}.json").write_text(json.dumps(declared))
    return path


@st.composite
def tables(draw: st.DrawFn) -> LabelTable:
    images = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    classes = draw(st.lists(NAMES.filter(lambda name: name not in ("image", "split")), max_size=5, unique=True))
    matrix = draw(
        st.lists(
            st.lists(st.sampled_from([1, 0, -1]), min_size=len(classes), max_size=len(classes)),
            min_size=len(images),
            max_size=len(images),
        )
    )
    complete = draw(st.booleans())
    states = np.array(matrix, np.int8).reshape(len(images), len(classes))
    labels = Labels.from_dense(np.where(states == 0, -1, states) if complete else states, classes)
    split = draw(
        st.none() | st.lists(st.sampled_from(["train", "val", ""]), min_size=len(images), max_size=len(images))
    )
    return LabelTable(tuple(images), labels.to_sparse() if draw(st.booleans()) else labels, split and tuple(split))


# ------------------------------------------------------------------------------------------------ lossless


@settings(max_examples=80, deadline=None)
@given(tables(), st.sampled_from(FORMS), st.sampled_from(SUFFIXES))
def test_a_written_table_comes_back_equal(
    tmp_path_factory: pytest.TempPathFactory, table: LabelTable, form: Form, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("table") / f"labels{suffix}"
    write_label_table(path, table, form=form)
    back = read_label_table(path)
    assert back == table
    assert back.labels.classes == table.labels.classes
    assert back.labels.is_sparse == table.labels.is_sparse


@given(st.text())
def test_escaped_names_come_back_and_hold_no_bar(name: str) -> None:
    assert "|" not in escape(name)
    assert unescape(escape(name)) == name


@given(st.text("%|725C"))
def test_escaping_survives_its_own_alphabet(name: str) -> None:
    assert unescape(escape(name)) == name


def test_an_ordinary_csv_stays_readable(tmp_path: Path) -> None:
    labels = Labels.from_dense([[1, -1, 1], [0, 0, 0]], ["cat", "50% wool", "a|b"])
    write_label_table(tmp_path / "t.csv", LabelTable(("1.jpg", "2.jpg"), labels, ("train", "test")))
    assert (tmp_path / "t.csv").read_text().replace('"', "").splitlines() == [
        "image,split,present,absent",
        "1.jpg,train,cat|a%7Cb,50% wool",
        "2.jpg,test,,",
    ]
    assert json.loads((tmp_path / "t.csv.json").read_text()) == {
        "classes": ["cat", "50% wool", "a|b"],
        "silence": "unknown",
        "form": "lists",
        "sparse": False,
    }


def test_a_complete_table_writes_its_positives_only(tmp_path: Path) -> None:
    table = LabelTable(("a", "b"), Labels.from_dense([[1, -1], [-1, -1]], ["cat", "dog"]))
    write_label_table(tmp_path / "t.csv", table)
    assert "dog" not in (tmp_path / "t.csv").read_text()
    assert read_label_table(tmp_path / "t.csv") == table


def test_parquet_lists_are_lists_of_text_for_everybody(tmp_path: Path) -> None:
    table = LabelTable(("a", "b"), Labels.from_dense([[1, 1], [0, -1]], ["x|y", "z"]))
    write_label_table(tmp_path / "t.parquet", table)
    columns = pq.read_table(tmp_path / "t.parquet")
    assert columns.to_pydict() == {"image": ["a", "b"], "present": [["x|y", "z"], []], "absent": [[], ["z"]]}


def test_many_rows_are_read_without_a_loop_over_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n, classes = 60_000, [f"class {i}" for i in range(5000)]
    columns = (rng.integers(0, 500, n)[:, None] + np.arange(10) * 500).ravel()
    labels = Labels.from_cells(n, classes, np.repeat(np.arange(n), 10), columns, rng.choice([-1, 1], 10 * n))
    table = LabelTable(tuple(f"{i}.jpg" for i in range(n)), labels)
    write_label_table(tmp_path / "t.parquet", table)
    back = read_label_table(tmp_path / "t.parquet")
    assert back.labels.is_sparse
    assert back == table


# ------------------------------------------------------------------------------------------------ other people's tables


def test_a_hand_made_wide_table(tmp_path: Path) -> None:
    table = read_label_table(_write(tmp_path, "image,zebra,ant\na.jpg,1,\nb.jpg,0,1.0\nc.jpg,TRUE, 0 \n"))
    assert table.labels.classes == ("zebra", "ant")
    assert table.labels.dense().tolist() == [[1, 0], [-1, 1], [1, -1]]
    assert table.split is None


def test_blanks_of_a_wide_table_are_absent_only_on_request(tmp_path: Path) -> None:
    path = _write(tmp_path, "image,cat,dog\na,1,\n")
    assert read_label_table(path).labels.dense().tolist() == [[1, 0]]
    assert read_label_table(path, silence="absent").labels.dense().tolist() == [[1, -1]]


def test_a_hand_made_long_table(tmp_path: Path) -> None:
    content = "image,class,state,split\nb,cat,1,train\na,dog,0,test\nb,dog,present,train\nc,,,test\nb,cat,1,train\n"
    table = read_label_table(_write(tmp_path, content))
    assert table.images == ("b", "a", "c")
    assert table.split == ("train", "test", "test")
    assert table.labels.classes == ("cat", "dog")
    assert table.labels.dense().tolist() == [[1, 1], [0, -1], [0, 0]]


def test_lists_take_their_classes_and_silence_from_arguments(tmp_path: Path) -> None:
    path = _write(tmp_path, "image,present\na,dog|cat\nb,\n")
    table = read_label_table(path, classes=["elk", "dog", "cat"], silence="absent")
    assert table.labels.classes == ("elk", "dog", "cat")
    assert table.labels.dense().tolist() == [[-1, 1, 1], [-1, -1, -1]]
    assert read_label_table(path, silence="unknown").labels.dense().tolist() == [[1, 1], [0, 0]]


def test_a_declaration_beside_a_csv_is_enough_and_arguments_win(tmp_path: Path) -> None:
    path = _write(tmp_path, "image,present\na,cat\n", silence="absent", classes=["dog", "cat"])
    assert read_label_table(path).labels.dense().tolist() == [[-1, 1]]
    assert read_label_table(path, silence="unknown", classes=["cat"]).labels.dense().tolist() == [[1]]


def test_a_byte_order_mark_and_an_absent_column_only(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeffimage,absent\r\na,Kühe\r\n".encode())
    assert read_label_table(path).labels == Labels.from_dense([[-1]], ["Kühe"])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.0, None, float("nan"), 0.0]),
        pa.array([True, None, None, False]),
        pa.array([1, None, None, 0], pa.int64()),
        pa.array(["1", "", None, "0"]).dictionary_encode(),
    ],
)
def test_wide_parquet_of_any_type(tmp_path: Path, column: pa.Array) -> None:
    pq.write_table(pa.table({"image": pa.array([7, 8, 9, 10]), "cat": column}), tmp_path / "t.parquet")
    table = read_label_table(tmp_path / "t.parquet")
    assert table.images == ("7", "8", "9", "10")
    assert table.labels.dense().ravel().tolist() == [1, 0, 0, -1]


@pytest.mark.parametrize(
    "present",
    [
        pa.array([["cat"], None, ["dog", "cat"]]),
        pa.array([["cat"], [], ["dog", "cat"]], pa.large_list(pa.large_string())),
        pa.array([["cat"], [], ["dog", "cat"]], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        pa.array(["cat", None, "dog|cat"]),
    ],
)
def test_parquet_lists_of_any_type(tmp_path: Path, present: pa.Array) -> None:
    chunked = pa.chunked_array([present.slice(0, 1), present.slice(1)])
    pq.write_table(pa.table({"image": ["a", "b", "c"], "present": chunked}), tmp_path / "t.parquet")
    table = read_label_table(tmp_path / "t.parquet", silence="unknown")
    assert table.labels == Labels.from_dense([[1, 0], [0, 0], [1, 1]], ["cat", "dog"])


def test_a_folder_called_like_a_partition_adds_no_column(tmp_path: Path) -> None:
    path = tmp_path / "split=train" / "t.parquet"
    table = LabelTable(("a",), Labels.from_dense([[1]], ["cat"]))
    write_label_table(path, table)
    assert read_label_table(path) == table


# ------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "labels.csv is empty"),
        ("image,present\n", "a table without images"),
        ("Image,present\na,cat\n", "no column 'image'.*rename 'Image' to 'image'"),
        ("photo,present\na,cat\n", "no column 'image'.*found 'photo', 'present'"),
        ("image,present,width\na,cat,3\n", "unknown column 'width'; this table has image, split, present, absent"),
        (",image,present\n0,a,cat\n", r"unknown column '' \(written by pandas\? use index=False\)"),
        ("image,class,sate\na,cat,1\n", "unknown column 'sate'; this table has image, split, class, state"),
        ("image\na\n", "has images and no labels"),
        ("image,cat,cat\na,1,1\n", "the column 'cat' appears more than once"),
        ("image;cat\na;1\n", "separated by ';'"),
        (
            "image,cat,dog\na,1,0\nb,1\n",
            "cannot be read as UTF-8 text with equally long rows: .*Expected 3 columns, got 2",
        ),
        ("image,present\na,cat\nb,\na,dog\n", r"row 3 \(image 'a'\): this image is already in row 1; 1 rows repeat"),
        ("image,present\na,cat\n,dog\n", "row 2: no image is named"),
        ("image,class\na,cat\n,dog\n", "row 2: no image is named"),
        ("image,present,absent\na,cat,\nb,cat|dog,elk|dog\n", r"row 2 \(image 'b'\): 'dog' is both present and absent"),
        ("image,class,state\na,cat,1\nb,cat,1\na,cat,0\n", r"row 3 \(image 'a'\): 'cat' is both present and absent"),
        ("image,class,state,split\na,cat,1,x\na,dog,1,y\n", r"row 2 \(image 'a'\): split 'y', but 'x' earlier"),
        ("image,class,state\na,,1\n", r"row 1 \(image 'a'\): a state without a class"),
        ("image,cat\na,1\nb,2\n", r"row 2 \(image 'b'\), column 'cat': '2' is no label\. Write 1"),
        ("image,cat\na,-1\n", r"'-1' is no label \(-1 means absent in some programs"),
        ("image,class,state\na,cat,maybe\n", r"row 1 \(image 'a'\), column 'state': 'maybe' is no label"),
        ("image,present,absent\na,cat||dog,\n", r"row 1 \(image 'a'\): an empty class name"),
        ("image,present\na,cat\n", "says which classes are present.*--silence unknown.*labels.csv.json"),
        ("image,class\na,cat\n", "says which classes are present"),
        ("image,present,absent\na,cat| dog,\nb,dog,\n", "differ only in blanks around them"),
    ],
)
def test_bad_tables_say_what_where_and_what_to_do(tmp_path: Path, content: str, message: str) -> None:
    path = _write(tmp_path, content)
    with pytest.raises(LabelTableError, match=message) as caught:
        read_label_table(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "image,present\na,cat\nb,cat|dgo\n",
            r"row 2 \(image 'b'\): the class 'dgo' is not in .* did you mean 'dog'\?",
        ),
        ("image,present\na,CAT\n", r"did you mean 'cat'\?"),
        ("image,present\na, dog\n", r"the class ' dog' .* did you mean 'dog'\?"),
        ("image,cat,zebra\na,,1\n", r"row 1 \(image 'a'\): the class 'zebra' .*; correct it, or add it"),
        ("image,cat,zebra\na,1,\n", "its header: the class 'zebra' is not in the list of 2 classes"),
        ("image,class\nx,cat\na,cat\na,cow\n", r"row 3 \(image 'a'\): the class 'cow'"),
    ],
)
def test_a_class_that_is_not_listed_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = _write(tmp_path, content)
    with pytest.raises(LabelTableError, match=message):
        read_label_table(path, classes=["cat", "dog"], silence="unknown")


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ('{"silense": "unknown"}', "nothing is declared by 'silense'; did you mean 'silence'"),
        ('{"silence": "nothing"}', '\'silence\' is "nothing"; it must be "unknown" or "absent"'),
        ('{"form": "tall"}', '"lists" or "wide" or "long"'),
        ('{"classes": "cat"}', "'classes' must be a list of names"),
        ("[]", "expected an object"),
        ("{", "is not JSON"),
    ],
)
def test_a_bad_declaration_is_said(tmp_path: Path, declared: str, message: str) -> None:
    path = _write(tmp_path, "image,present\na,cat\n")
    (tmp_path / "labels.csv.json").write_text(declared)
    with pytest.raises(LabelTableError, match=message) as caught:
        read_label_table(path)
    assert "labels.csv.json" in str(caught.value)


def test_files_that_are_no_label_tables(tmp_path: Path) -> None:
    table = LabelTable(("a",), Labels.from_dense([[1]], ["cat"]))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "latin.csv").write_bytes("image,present\na,Kühe\n".encode("latin-1"))
    (tmp_path / "zero.parquet").write_bytes(b"")
    for name, message in {
        "none.csv": "there is no label table at",
        "none.xlsx": "ends in .parquet, .csv or .tsv, not in '.xlsx'",
        "broken.parquet": "cannot be read as a Parquet file",
        "latin.csv": "cannot be read as UTF-8",
        "zero.parquet": "is empty",
    }.items():
        with pytest.raises(LabelTableError, match=message):
            read_label_table(tmp_path / name, silence="unknown")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(LabelTableError, match="is a folder"):
        read_label_table(tmp_path / "folder.csv")
    with pytest.raises(LabelTableError, match=r"not in '\.xlsx'"):
        write_label_table(tmp_path / "t.xlsx", table)


def test_parquet_columns_of_the_wrong_kind(tmp_path: Path) -> None:
    for columns, message in (
        ({"image": ["a"], "present": [3]}, "'present' must hold lists of class names, not int64"),
        ({"image": ["a"], "present": [[3]]}, "'present' lists int64, not class names"),
        ({"image": [["a"]], "cat": [1]}, "'image' must hold text or numbers, not list"),
        ({"image": ["a"], "cat": [[1]]}, "'cat' must hold text or numbers, not list"),
    ):
        pq.write_table(pa.table(columns), tmp_path / "t.parquet")
        with pytest.raises(LabelTableError, match=message):
            read_label_table(tmp_path / "t.parquet", silence="unknown")


def test_tables_that_cannot_exist_are_refused() -> None:
    one = Labels.from_dense([[1]], ["cat"])
    for images, labels, split, message in (
        ((), Labels.from_dense(np.zeros((0, 1)), ["cat"]), None, "at least one image"),
        (("a", "b"), one, None, "2 images, 1 rows of labels do not pair up"),
        (("a",), one, ("x", "y"), "and 2 splits do not pair up"),
        (("a", "a"), Labels.from_dense([[1], [1]], ["cat"]), None, "no two the same"),
        (("a",), Labels.from_dense([[1]], [""]), None, "one is empty"),
    ):
        with pytest.raises(LabelTableError, match=message):
            LabelTable(images, labels, split)


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    good = LabelTable(("a",), Labels.from_dense([[1]], ["cat"]))
    write_label_table(path, good)
    with pytest.raises(UserError, match="the class 'split' cannot be a column of a wide table"):
        write_label_table(path, LabelTable(("a",), Labels.from_dense([[1]], ["split"])), form="wide")
    with pytest.raises(UserError, match="is not valid Unicode"):
        write_label_table(path, LabelTable(("\udcff.jpg",), good.labels))
    assert read_label_table(path) == good
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["t.csv", "t.csv.json"]


def test_silence_must_be_one_of_two(tmp_path: Path) -> None:
    path = _write(tmp_path, "image,present\na,cat\n")
    with pytest.raises(LabelTableError, match="silence is 'unknown' or 'absent', not 'no'"):
        read_label_table(path, silence="no")  # type: ignore[arg-type]
