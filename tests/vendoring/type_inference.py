"""What an expression of our source is, found in syntax trees: nothing is imported or run.

Types are followed through annotations, checks, constructors, attributes, calls and imports, into
the source of what is installed as well. Where a type is not known, nothing is guessed.
"""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Types are followed this many steps; a circle ends there.
DEPTH = 12


@dataclass(eq=False)
class Class:
    """A class as its source shows it."""

    module: Module
    node: ast.ClassDef
    qualname: str

    @property
    def name(self) -> str:
        return f"{self.module.name}:{self.qualname}"

    @cached_property
    def members(self) -> dict[str, list[tuple[ast.AST, Function | None]]]:
        """Each name that the class or one of its methods defines, and where."""
        found: dict[str, list[tuple[ast.AST, Function | None]]] = {}
        for statement in self.node.body:
            for name, node in defined(statement):
                found.setdefault(name, []).append((node, None))
            if isinstance(statement, FUNCTIONS) and statement.args.args:
                me = statement.args.args[0].arg
                for node in ast.walk(statement):
                    if isinstance(node, ast.stmt):
                        for name in assigned_attributes(node, me):
                            found.setdefault(name, []).append((node, statement))
        return found

    @cached_property
    def bases(self) -> list[Class | None]:
        """None for one that cannot be found."""
        found: list[Class | None] = []
        for base in self.node.bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            if ast.unparse(plain).rpartition(".")[2] in ("Generic", "Protocol", "object", "ABC"):
                continue
            known = self.module.value(plain)
            found += [k.cls for k in known if k.cls and k.kind == "class"] or [None]
        return found

    @cached_property
    def is_protocol(self) -> bool:
        return any("Protocol" in ast.unparse(base) for base in self.node.bases)

    @cached_property
    def lineage(self) -> list[Class]:
        """The class and what it inherits from, nearest first."""
        found = [self]
        for base in self.bases:
            if base is not None:
                found += [c for c in base.lineage if c not in found]
        return found


def defined(statement: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    """The names that one statement of a class or module gives a value or a type."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        yield statement.name, statement
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id, statement
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    yield node.id, statement
    elif isinstance(statement, (ast.If, ast.Try)):
        for inner in ast.iter_child_nodes(statement):
            if isinstance(inner, ast.stmt):
                yield from defined(inner)


def assigned_attributes(statement: ast.stmt, me: str) -> Iterator[str]:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
        targets = [statement.target]
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        targets = [i.optional_vars for i in statement.items if i.optional_vars]
    for target in targets:
        for node in ast.walk(target):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and isinstance(node.value, ast.Name)
                and node.value.id == me
            ):
                yield node.attr


@dataclass(frozen=True)
class Value:
    """What is known of a value: a `module`, a `class`, an `instance` or a `function`.

    A `super` is an instance that is looked at without its class.
    """

    kind: str
    module: Module | None = None
    cls: Class | None = None
    function: Function | None = None

    @property
    def lineage(self) -> list[Class]:
        """The classes that its attributes may come from, nearest first."""
        if self.cls is None or self.kind == "function":
            return []
        return self.cls.lineage[1:] if self.kind == "super" else self.cls.lineage


Values: TypeAlias = "list[Value]"


@dataclass(eq=False)
class Module:
    world: World
    name: str
    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_bytes() if self.path.is_file() else b"")

    @cached_property
    def classes(self) -> dict[str, Class]:
        return {
            n.name: Class(self, n, n.name) for n in self.tree.body if isinstance(n, ast.ClassDef)
        }

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """Local name to (module, name in it; empty for the module itself)."""
        found: dict[str, tuple[str, str]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                origin = self.origin(node)
                found.update({a.asname or a.name: (origin, a.name) for a in node.names})
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    found[alias.asname or top] = (alias.name if alias.asname else top, "")
        return found

    def origin(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        if self.path.name == "__init__.py":
            parts.append("")
        return ".".join([*parts[: -node.level], *([node.module] if node.module else [])])

    @cached_property
    def top(self) -> dict[str, ast.AST]:
        return {name: node for s in self.tree.body for name, node in defined(s)}

    def lookup(self, name: str, depth: int = 0) -> Values:
        """What a name means at the module's level."""
        if depth > DEPTH:
            return []
        if name in self.classes:
            return [Value("class", cls=self.classes[name])]
        node = self.top.get(name)
        if isinstance(node, FUNCTIONS):
            return [Value("function", module=self, function=node)]
        if name in self.imports:
            origin, inner = self.imports[name]
            return self.world.find(origin, inner, depth + 1)
        if isinstance(node, ast.Assign):
            return self.value(node.value, depth=depth + 1)
        if isinstance(node, ast.AnnAssign):
            return self.annotated(node.annotation, depth + 1)
        for statement in self.tree.body:
            if (
                isinstance(statement, ast.ImportFrom)
                and statement.names[0].name == "*"
                and (found := self.world.find(self.origin(statement), name, depth + 1))
            ):
                return found
        return []

    def value(self, node: ast.expr, env: Env | None = None, depth: int = 0) -> Values:
        """What an expression may be; empty where that is not known."""
        if depth > DEPTH:
            return []
        deeper = depth + 1
        if isinstance(node, ast.Name):
            return env.lookup(node.id, deeper) if env else self.lookup(node.id, deeper)
        if isinstance(node, ast.Attribute):
            owners = self.value(node.value, env, deeper)
            return [v for o in owners for v in self.world.attribute(o, node.attr, deeper)]
        if isinstance(node, (ast.Await, ast.NamedExpr)):
            return self.value(node.value, env, deeper)
        if isinstance(node, ast.BoolOp):
            return [v for n in node.values for v in self.value(n, env, deeper)]
        if isinstance(node, ast.IfExp):
            return [v for n in (node.body, node.orelse) for v in self.value(n, env, deeper)]
        if isinstance(node, ast.Subscript):
            return [v for v in self.value(node.value, env, deeper) if v.kind == "class"]
        if isinstance(node, ast.Call):
            return self.called(node, env, deeper)
        return []

    def called(self, node: ast.Call, env: Env | None, depth: int) -> Values:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "super" and env is not None and (cls := env.cls) is not None:
            return [Value("super", cls=cls)]
        if name == "cast":
            return self.annotated(node.args[0], depth)
        if name == "type" and len(node.args) == 1:
            found = self.value(node.args[0], env, depth)
            return [Value("class", cls=v.cls) for v in found if v.kind == "instance"]
        if name == "replace" and node.args:
            return self.value(node.args[0], env, depth)
        result: Values = []
        for callee in self.value(node.func, env, depth):
            if callee.kind == "class":
                result.append(Value("instance", cls=callee.cls))
            elif callee.kind == "function" and callee.function is not None and callee.module:
                returns = callee.function.returns
                if isinstance(returns, ast.Name) and returns.id == "Self" and callee.cls:
                    result.append(Value("instance", cls=callee.cls))
                elif returns is not None:
                    result += callee.module.annotated(returns, depth)
        return result

    def annotated(self, node: ast.expr, depth: int = 0) -> Values:
        """Instances of what an annotation names."""
        if depth > DEPTH:
            return []
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self.annotated(ast.parse(node.value, mode="eval").body, depth + 1)
        if isinstance(node, ast.BinOp):
            return [v for n in (node.left, node.right) for v in self.annotated(n, depth + 1)]
        if isinstance(node, ast.Subscript):
            plain = ast.unparse(node.value).rpartition(".")[2]
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if plain in ("type", "Type"):
                found = [v for n in inner for v in self.annotated(n, depth + 1)]
                return [Value("class", cls=v.cls) for v in found]
            if plain in ("Optional", "Union", "Annotated", "NotGivenOr", "ClassVar", "Final"):
                return [v for n in inner for v in self.annotated(n, depth + 1)]
            node = node.value
        result = []
        for value in self.value(node, depth=depth + 1):
            if value.kind == "class":
                result.append(Value("instance", cls=value.cls))
        return result


@dataclass(eq=False)
class Env:
    """The names of one function, inside those of what it stands in."""

    module: Module
    function: Function | ast.Lambda | None
    cls: Class | None
    outer: Env | None = None
    _busy: set[str] = field(default_factory=set)

    @cached_property
    def parameters(self) -> dict[str, ast.expr | None]:
        if self.function is None:
            return {}
        a = self.function.args
        every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
        return {arg.arg: arg.annotation for arg in every}

    @cached_property
    def me(self) -> str:
        """The name of the first parameter of a method."""
        if self.cls is None or self.function not in self.cls.node.body:
            return ""
        assert isinstance(self.function, FUNCTIONS)
        decorators = {ast.unparse(d) for d in self.function.decorator_list}
        if "staticmethod" in decorators:
            return ""
        return next(iter(self.parameters), "")

    @cached_property
    def locals(self) -> dict[str, list[ast.expr | tuple[str, ast.expr]]]:
        """Name to the expressions that it is given; ("is", type) for an annotation or a check."""
        found: dict[str, list[ast.expr | tuple[str, ast.expr]]] = {}
        if self.function is None:
            return found
        for node in ast.walk(self.function):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, []).append(node.value)
                    elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                        for t, v in zip(target.elts, node.value.elts, strict=False):
                            if isinstance(t, ast.Name):
                                found.setdefault(t.id, []).append(v)
            elif isinstance(node, ast.NamedExpr):
                found.setdefault(node.target.id, []).append(node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.setdefault(node.target.id, []).append(("is", node.annotation))
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                for item in node.items:
                    if isinstance(item.optional_vars, ast.Name):
                        found.setdefault(item.optional_vars.id, []).append(item.context_expr)
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "isinstance"
                and isinstance(node.args[0], ast.Name)
            ):
                found.setdefault(node.args[0].id, []).append(("is", node.args[1]))
        return found

    def lookup(self, name: str, depth: int) -> Values:
        if name in self._busy:
            return []
        if name == self.me and self.cls is not None:
            assert isinstance(self.function, FUNCTIONS)
            decorators = {ast.unparse(d) for d in self.function.decorator_list}
            kind = "class" if "classmethod" in decorators else "instance"
            return [Value(kind, cls=self.cls)]
        found: Values = []
        known = name in self.parameters or name in self.locals
        self._busy.add(name)
        try:
            if (annotation := self.parameters.get(name)) is not None:
                found += self.module.annotated(annotation, depth)
            for given in self.locals.get(name, []):
                if isinstance(given, tuple):
                    found += self.module.annotated(given[1], depth)
                else:
                    found += self.module.value(given, self, depth)
        finally:
            self._busy.discard(name)
        if known:
            return found
        if self.outer is not None:
            return self.outer.lookup(name, depth)
        return self.module.lookup(name, depth)


class World:
    """Where modules are found.

    Args:
        roots: The folders that they are looked for in, by their dotted names.
        standard: That of the standard library, which is looked at last.
    """

    def __init__(self, roots: Sequence[Path], standard: Path) -> None:
        self._roots = [*roots, standard]
        self._modules: dict[str, Module | None] = {}

    @classmethod
    def around(cls, root: Path) -> World:
        """A checkout's package, with all that is installed here."""
        installed, standard = (Path(sysconfig.get_path(p)) for p in ("purelib", "stdlib"))
        return cls([root, installed], standard)

    def files(self, package: str) -> Iterator[Path]:
        """The files of a package."""
        for root in self._roots:
            yield from root.joinpath(*package.split(".")).rglob("*.py")

    def is_standard(self, module: Module) -> bool:
        """Whether it is of the standard library."""
        root = next((r for r in self._roots if r in module.path.parents), None)
        return root == self._roots[-1]

    def module(self, name: str) -> Module | None:
        if name not in self._modules:
            self._modules[name] = None
            for root in self._roots:
                base = root.joinpath(*name.split("."))
                for path in (base / "__init__.py", base.with_name(base.name + ".py")):
                    if path.is_file() and self._modules[name] is None:
                        self._modules[name] = Module(self, name, path)
        return self._modules[name]

    def find(self, module: str, name: str, depth: int = 0) -> Values:
        """What `from module import name` gives."""
        if depth > DEPTH:
            return []
        found = self.module(module)
        if name and found is not None and (values := found.lookup(name, depth + 1)):
            return values
        dotted = f"{module}.{name}" if name else module
        inner = self.module(dotted)
        if inner is not None:
            return [Value("module", module=inner)]
        for root in self._roots:  # a namespace package has no file
            if (folder := root.joinpath(*dotted.split("."))).is_dir():
                return [Value("module", module=Module(self, dotted, folder))]
        return []

    def attribute(self, owner: Value, name: str, depth: int) -> Values:
        """What `owner.name` may be."""
        if owner.kind == "module" and owner.module is not None:
            return self.find(owner.module.name, name, depth)
        if depth > DEPTH:
            return []
        for cls in owner.lineage:
            if name in cls.members:
                return self._member(cls, name, depth + 1)
        return []

    def _member(self, cls: Class, name: str, depth: int) -> Values:
        found: Values = []
        for node, method in cls.members[name]:
            if isinstance(node, FUNCTIONS):
                decorators = {ast.unparse(d).rpartition(".")[2] for d in node.decorator_list}
                if decorators & {"property", "cached_property"}:
                    if node.returns is not None:
                        found += cls.module.annotated(node.returns, depth)
                else:
                    found.append(Value("function", cls.module, cls, node))
            elif isinstance(node, ast.ClassDef):
                found.append(Value("class", cls=Class(cls.module, node, f"{cls.qualname}.{name}")))
            elif isinstance(node, ast.AnnAssign):
                found += cls.module.annotated(node.annotation, depth)
            elif isinstance(node, ast.Assign):
                env = Env(cls.module, method, cls) if method is not None else None
                found += cls.module.value(node.value, env, depth)
        return found
