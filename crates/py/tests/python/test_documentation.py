"""What the documentation shows runs and says what it says."""

import doctest
import importlib
import pathlib
import re
import unittest

from house import Case

MODULES = ["chappe", "chappe.broadcasts", "chappe.choice", "chappe.tubes", "chappe.maps", "chappe.mp", "chappe.aio", "chappe.term"]


def book():
    """The guide's chapter, where the tests run in the repository."""
    for parent in pathlib.Path(__file__).resolve().parents:
        if (parent / "book/src/python.md").exists():
            return parent
    return None


class Documented(Case):
    def test_examples_in_the_modules(self):
        for name in MODULES:
            module = importlib.import_module(name)
            failed, tried = doctest.testmod(module)
            self.assertEqual(failed, 0, name)
            self.assertGreater(tried, 0, name)

    def test_all_that_is_public_has_a_word_for_help(self):
        import chappe

        # That of `threading` is documented there.
        for name in set(chappe.__all__) - {"BrokenBarrierError"}:
            self.assertTrue((getattr(chappe, name).__doc__ or "").strip(), name)

    def test_the_chapters(self):
        for chapter, least in (("python.md", 10), ("recipes.md", 5)):
            text = (book() / "book/src" / chapter).read_text()
            # What is shown of a file is tested there. An empty line ends what an example prints.
            text = re.sub(r"```python,from=.*?```", "", text, flags=re.S).replace("```", "")
            test = doctest.DocTestParser().get_doctest(text, {}, chapter, chapter, 0)
            failed, tried = doctest.DocTestRunner().run(test)
            self.assertEqual(failed, 0, chapter)
            self.assertGreater(tried, least, chapter)

    def test_the_quick_start(self):
        text = (book() / "README.md").read_text()
        program = re.search(r"## Python\n.*?```python\n(.*?)```", text, re.S).group(1)
        self.assertLessEqual(len(program.splitlines()), 10)
        exec(compile(program, "README.md", "exec"), {"__name__": "__main__"})

    def test_the_examples(self):
        for example in sorted((book() / "examples/python").glob("*.py")):
            # A web server: test_manners asks it.
            if example.name == "gpu_api.py":
                continue
            with self.subTest(example.name):
                made = self.script(f"import runpy; runpy.run_path({str(example)!r}, run_name='__main__')")
                self.assertEqual(made.returncode, 0, made.stderr)
                self.assertTrue(made.stdout)


if __name__ == "__main__":
    unittest.main()
