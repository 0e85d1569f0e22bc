"""LangGraph's checkpoints and store in Redis: threads that go on, are looked back upon and filtered; writes that wait;
items in namespaces, by filter and by meaning; lifetimes."""
import os
import zlib
from operator import add
from typing import Annotated, TypedDict

from langchain_core.embeddings import Embeddings
from langgraph.checkpoint.base import create_checkpoint, empty_checkpoint
from langgraph.checkpoint.redis import RedisSaver
from langgraph.checkpoint.redis.shallow import ShallowRedisSaver
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp
from langgraph.store.redis import RedisStore
from langgraph.types import Command, interrupt
from redis import Redis

URL = f"redis://localhost:{os.environ['REDIS_PORT']}"
client = Redis.from_url(URL)


class State(TypedDict):
    steps: Annotated[list[str], add]
    total: int


class Words(Embeddings):
    """The words of a text, each in a place by its checksum."""

    def embed_query(self, text):
        vector = [0.01] * 32
        for word in text.lower().split():
            vector[zlib.crc32(word.encode()) % 32] += 1
        return vector

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


def graph(saver, asks=False):
    def first(state):
        return {"steps": ["first"], "total": state["total"] + 1}

    def second(state):
        answer = interrupt("go on?") if asks else "unasked"
        return {"steps": ["second", answer], "total": state["total"] * 2}

    plan = StateGraph(State)
    plan.add_node("first", first)
    plan.add_node("second", second)
    plan.add_edge(START, "first")
    plan.add_edge("first", "second")
    plan.add_edge("second", END)
    return plan.compile(checkpointer=saver)


def thread(name):
    return {"configurable": {"thread_id": name}}


def threads(saver):
    plan = graph(saver)
    print("run", plan.invoke({"steps": [], "total": 1}, thread("a")))
    print("again", plan.invoke({"steps": ["more"], "total": 5}, thread("a")))
    print("other", plan.invoke({"steps": [], "total": 7}, thread("b:1-x")))
    print("state", plan.get_state(thread("a")).values, plan.get_state(thread("none")).values)
    past = list(plan.get_state_history(thread("a")))
    print("history", [(state.metadata["step"], state.metadata["source"], state.next, state.values) for state in past])
    print("limit", [state.metadata["step"] for state in plan.get_state_history(thread("a"), limit=2)])
    earlier = next(state for state in past if state.metadata["step"] == 1)
    older = plan.get_state_history(thread("a"), before=earlier.config)
    print("before", [state.metadata["step"] for state in older])
    for wanted in [{"source": "input"}, {"step": 2}, {"source": "loop", "step": 1}, {"source": "none"}]:
        found = saver.list(None, filter=wanted)
        keys = sorted((one.config["configurable"]["thread_id"], one.metadata["step"]) for one in found)
        print("filter", wanted, keys)
    print("updated", plan.invoke(None, plan.update_state(earlier.config, {"total": 100}, as_node="first")))
    print("back", plan.get_state(earlier.config).values)
    saver.delete_thread("a")
    print("deleted", plan.get_state(thread("a")).values, plan.get_state(thread("b:1-x")).values)


def waiting(saver):
    plan = graph(saver, asks=True)
    first = plan.invoke({"steps": [], "total": 1}, thread("asks"))
    print("asked", [one.value for one in first["__interrupt__"]], plan.get_state(thread("asks")).next)
    print("answered", plan.invoke(Command(resume="yes"), thread("asks")))


def tuples(saver):
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": "inner"}}
    begun = create_checkpoint(empty_checkpoint(), {}, 1)
    kept = saver.put(config, begun, {"source": "input", "step": -1, "by": "a", "score": 3}, {})
    saver.put_writes(kept, [("one", {"n": 1}), ("two", [1, 2])], "task")
    saver.put(kept, create_checkpoint(begun, {}, 2), {"source": "loop", "step": 0, "by": "b"}, {})
    latest, first = saver.get_tuple(config), saver.get_tuple(kept)
    print("latest", latest.metadata["by"], latest.parent_config["configurable"]["checkpoint_id"] == begun["id"])
    print("first", first.metadata["by"], first.metadata["score"], first.pending_writes)
    print("root", saver.get_tuple(thread("t")))
    print("inner", [one.metadata["step"] for one in saver.list(config, filter={"source": "loop"})])


def items(store):
    """Namespaces of one word: a longer one is a quoted text with escapes, which RediSearch before Redis 8 never finds."""
    for at in range(5):
        store.put(("odd" if at % 2 else "even",), f"n{at}", {"kind": "old" if at < 3 else "new", "rank": at})
    store.put(("even",), "n2", {"kind": "old", "rank": 20})
    print("get", store.get(("even",), "n2").value, store.get(("odd",), "n2"), store.get(("none",), "n2"))
    for wanted in [None, {"kind": "old"}, {"rank": 4}, {"kind": "new", "rank": 20}]:
        found = store.search(("even",), filter=wanted, limit=20)
        print("search", wanted, sorted((item.key, item.value["rank"]) for item in found))
    print("page", len(store.search(("even",), limit=2)), len(store.search(("even",), limit=2, offset=2)))
    print("namespaces", sorted(store.list_namespaces()), store.list_namespaces(prefix=("odd",)))
    store.delete(("even",), "n4")
    answers = store.batch([
        GetOp(("even",), "n0"),
        PutOp(("new",), "k", {"kind": "old"}),
        SearchOp(("odd",), {"kind": "old"}, limit=5),
        ListNamespacesOp(limit=9),
        GetOp(("even",), "n4"),
    ])
    print("batch", answers[0].value, [item.key for item in answers[2]], len(answers[3]), answers[4])


def meanings(store):
    for key, text in [("a", "birds of the sea"), ("b", "the old man and the sea"), ("c", "songs of the road")]:
        store.put(("texts",), key, {"text": text, "long": len(text) > 17}, ttl=10)
    store.put(("unseen",), "d", {"text": "the sea"}, index=False)
    for asked, wanted in [("birds of the sea", None), ("the road", None), ("the sea", {"long": True})]:
        found = store.search(("texts",), query=asked, filter=wanted, limit=2)
        print("near", asked, wanted, [(item.key, round(item.score, 4)) for item in found])
    store.put(("texts",), "c", {"text": "birds", "long": False})
    print("changed", [(item.key, round(item.score, 4)) for item in store.search(("texts",), query="birds", limit=1)])
    lives = sorted(client.ttl(key) > 0 for key in client.scan_iter("store*"))
    print("lives", lives)


def main():
    with RedisSaver.from_conn_string(URL) as saver:
        saver.setup()
        threads(saver)
        waiting(saver)
        tuples(saver)
    with RedisSaver.from_conn_string(URL, ttl={"default_ttl": 5, "refresh_on_read": True}) as saver:
        saver.setup()
        graph(saver).invoke({"steps": [], "total": 1}, thread("short"))
        lives = {0 < client.ttl(key) <= 300 for key in client.scan_iter("*short*")}
        print("ttl", lives)
    with ShallowRedisSaver.from_conn_string(URL) as saver:
        saver.setup()
        plan = graph(saver)
        plan.invoke({"steps": [], "total": 1}, thread("shallow"))
        print("shallow", plan.invoke({"steps": [], "total": 2}, thread("shallow")), len(list(saver.list(thread("shallow")))))
    with RedisStore.from_conn_string(URL) as store:
        store.setup()
        items(store)
    client.flushall()
    index = {"dims": 32, "embed": Words(), "distance_type": "cosine", "fields": ["text"]}
    with RedisStore.from_conn_string(URL, index=index) as store:
        store.setup()
        meanings(store)
