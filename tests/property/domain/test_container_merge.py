"""Merging a request's container with a template: the law, for every template and every request."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from corral.domain.container import AS_TEMPLATE, ContainerSpec, merge_problems, merged
from corral.domain.placement.catalog import EnvironmentVariable, PortKind, Template, TemplatePort, TemplateTool

words = st.sampled_from(["", "a", "b", "c"])
numbers = st.sampled_from([22, 80, 443, 8888])
kinds = st.sampled_from(PortKind)
ports = st.lists(st.builds(TemplatePort, port=numbers, kind=kinds), unique_by=lambda port: port.port, max_size=4).map(
    tuple
)
variables = st.lists(
    st.builds(EnvironmentVariable, key=st.sampled_from("ABCD"), value=words), unique_by=lambda env: env.key, max_size=4
).map(tuple)
templates = st.builds(
    Template,
    id=st.just("1"),
    name=words,
    image=st.sampled_from(["a", "b"]),
    image_auth_id=st.none() | st.sampled_from(["login-1", "login-2"]),
    ports=ports,
    envs=variables,
    tools=st.lists(st.builds(TemplateTool, name=words, port=numbers, kind=kinds), max_size=3).map(tuple),
    start_command=words,
    entrypoint=words,
    min_cuda_version=st.sampled_from(["", "11.8"]),
)
specs = st.builds(
    ContainerSpec,
    image=st.none() | st.sampled_from(["a", "b", "c"]),
    image_auth_id=st.none() | st.sampled_from(["login-2", "login-3"]),
    command=st.none() | words,
    entrypoint=st.none() | words,
    env=variables,
    ports=st.none() | ports,
    min_cuda=st.none() | st.just("12.4"),
)
maybe_templates = st.none() | templates


@given(templates)
def test_a_request_that_says_nothing_leaves_the_template_as_it_is(template: Template) -> None:
    """The identity: such a request runs what it ran before there were these fields."""
    assert merged(template, AS_TEMPLATE) == template


@given(maybe_templates, specs)
def test_merging_twice_changes_nothing_more(template: Template | None, spec: ContainerSpec) -> None:
    """A repeated try of a create sends the same container."""
    once = merged(template, spec)

    assert merged(once, spec) == once


@given(maybe_templates, specs)
def test_what_the_request_gives_wins(template: Template | None, spec: ContainerSpec) -> None:
    """Each field, and each variable by its name."""
    found = merged(template, spec)

    assert spec.image in {None, found.image}
    assert spec.image_auth_id in {None, found.image_auth_id}
    assert spec.command in {None, found.start_command}
    assert spec.entrypoint in {None, found.entrypoint}
    assert spec.min_cuda in {None, found.min_cuda_version}
    assert spec.ports in {None, found.ports}
    assert set(spec.env) <= set(found.envs)


@given(templates, specs)
def test_what_the_request_leaves_out_is_the_templates(template: Template, spec: ContainerSpec) -> None:
    """Field by field; variables keep the template's order, and tools stay beside the request's ports."""
    found = merged(template, spec)
    names = [env.key for env in spec.env]

    assert spec.image is not None or found.image == template.image
    assert spec.command is not None or found.start_command == template.start_command
    assert spec.entrypoint is not None or found.entrypoint == template.entrypoint
    assert spec.min_cuda is not None or found.min_cuda_version == template.min_cuda_version
    assert spec.ports is not None or found.ports == template.ports
    assert [env for env in found.envs if env.key not in names] == [e for e in template.envs if e.key not in names]
    assert [env.key for env in found.envs][: len(template.envs)] == [env.key for env in template.envs]
    claimed = {port.port for port in spec.ports or ()}
    assert found.tools == tuple(tool for tool in template.tools if tool.port not in claimed)


@given(templates, specs)
def test_a_login_is_only_sent_for_the_image_it_was_meant_for(template: Template, spec: ContainerSpec) -> None:
    """The template's login must not reach the registry of another image."""
    found = merged(template, spec)

    if spec.image_auth_id is None:
        assert found.image_auth_id == (template.image_auth_id if found.image == template.image else None)


@given(specs)
def test_without_a_template_only_the_request_counts(spec: ContainerSpec) -> None:
    """Nothing is added to an image of one's own."""
    found = merged(None, spec)

    assert found == Template(
        id="",
        name="",
        image=spec.image or "",
        image_auth_id=spec.image_auth_id,
        ports=spec.ports or (),
        envs=spec.env,
        tools=(),
        start_command=spec.command or "",
        entrypoint=spec.entrypoint or "",
        min_cuda_version=spec.min_cuda or "",
    )


@given(maybe_templates, specs)
def test_nothing_is_invented(template: Template | None, spec: ContainerSpec) -> None:
    """Every value comes from one side, and no name occurs twice."""
    base = template or merged(None, AS_TEMPLATE)
    found = merged(template, spec)

    assert found.image in {base.image, spec.image}
    assert found.image_auth_id in {base.image_auth_id, spec.image_auth_id, None}
    assert found.start_command in {base.start_command, spec.command}
    assert found.entrypoint in {base.entrypoint, spec.entrypoint}
    assert found.min_cuda_version in {base.min_cuda_version, spec.min_cuda}
    assert found.ports in {base.ports, spec.ports}
    assert set(found.tools) <= set(base.tools)
    assert set(found.envs) <= {*base.envs, *spec.env}
    assert len({env.key for env in found.envs}) == len(found.envs)
    assert (found.id, found.name) == (base.id, base.name)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 120))
def test_more_than_the_provider_takes_is_a_problem_of_its_field(opened: int, tools: int, names: int) -> None:
    """Ports and tools count together."""
    container = replace(
        merged(None, AS_TEMPLATE),
        ports=tuple(TemplatePort(port=n + 1, kind=PortKind.TCP) for n in range(opened)),
        tools=tuple(TemplateTool(name="t", port=n + 100, kind=PortKind.HTTP) for n in range(tools)),
        envs=tuple(EnvironmentVariable(key=f"N{n}", value="") for n in range(names)),
    )
    expected = [("ports", "INVALID_PORTS")] * (opened + tools > 15) + [("env", "INVALID_ENV")] * (names > 100)

    assert [(found.field, found.code) for found in merge_problems(container)] == expected
