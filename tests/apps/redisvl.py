"""RedisVL: an index of hashes and one of JSON, every kind of query, and what is built on them: a semantic cache, a
router, and the history of a conversation."""
import os
import zlib

import numpy as np
from redis import Redis
from redisvl.extensions.cache.llm import SemanticCache
from redisvl.extensions.message_history import MessageHistory, SemanticMessageHistory
from redisvl.extensions.router import Route, SemanticRouter
from redisvl.index import SearchIndex
from redisvl.query import (
    AggregateHybridQuery,
    CountQuery,
    FilterQuery,
    MultiVectorQuery,
    TextQuery,
    Vector,
    VectorQuery,
    VectorRangeQuery,
)
from redisvl.query.filter import Geo, GeoRadius, Num, Tag, Text
from redisvl.utils.vectorize import CustomTextVectorizer

client = Redis(port=int(os.environ["REDIS_PORT"]))

FIELDS = [
    {"name": "name", "type": "text"},
    {"name": "job", "type": "tag"},
    {"name": "age", "type": "numeric", "attrs": {"sortable": True}},
    {"name": "place", "type": "geo"},
    {"name": "about", "type": "text"},
]
PEOPLE = [
    ("john", "engineer", 18, "-122.4,37.7", "builds bridges and roads", [0.1, 0.1, 0.5], [0.9, 0.1]),
    ("mary", "doctor", 14, "-122.4,37.7", "a medical professional who treats lung cancer", [0.1, 0.1, 0.5], [0.2, 0.8]),
    ("nancy", "doctor", 94, "-122.4,37.7", "research on cancer of the skin", [0.7, 0.1, 0.5], [0.4, 0.6]),
    ("tyler", "engineer", 100, "-110.0,37.3", "engines, brakes and other parts", [0.1, 0.4, 0.5], [0.5, 0.4]),
    ("tim", "dermatologist", 12, "-110.0,37.3", "a medical expert in skin", [0.4, 0.4, 0.5], [0.1, 0.1]),
    ("joe", "dentist", 35, "-110.0,37.3", "teeth, and roads to the sea", [-0.6, 0.1, 0.5], [0.7, 0.2]),
]


def embed(text, dimensions=64):
    """The words of a text, each in a place by its checksum."""
    vector = [0.01] * dimensions
    for word in text.lower().replace("?", "").split():
        vector[zlib.crc32(word.encode()) % dimensions] += 1
    return vector


def figure(name, value):
    return abs(round(float(value), 4)) if name.startswith(("distance", "vector", "combined")) else value


def show(title, rows, *names):
    print(title)
    for row in rows:
        print("   ", *[figure(name, row.get(name)) for name in names])


def schema(kind):
    at = (lambda name: {"path": f"$.{name}"}) if kind == "json" else (lambda name: {})
    vector = {"algorithm": "flat", "distance_metric": "cosine", "datatype": "float32"}
    fields = [field | at(field["name"]) for field in FIELDS]
    fields.append({"name": "face", "type": "vector", "attrs": vector | {"dims": 3}} | at("face"))
    graph = vector | {"algorithm": "hnsw", "dims": 2, "distance_metric": "l2"}
    fields.append({"name": "voice", "type": "vector", "attrs": graph} | at("voice"))
    return {"index": {"name": f"people-{kind}", "prefix": kind, "storage_type": kind}, "fields": fields}


def rows(kind):
    pack = (lambda vector: vector) if kind == "json" else (lambda vector: np.array(vector, dtype=np.float32).tobytes())
    names = ["name", "job", "age", "place", "about", "face", "voice"]
    return [dict(zip(names, [*row[:5], pack(row[5]), pack(row[6])])) for row in PEOPLE]


def filters(index):
    job, age, about = Tag("job"), Num("age"), Text("about")
    for title, expression in [
        ("all", "*"),
        ("tag", job == "engineer"),
        ("tags", job == ["dentist", "doctor"]),
        ("no tag", job != "doctor"),
        ("number", age >= 18),
        ("between", age.between(14, 35, "left")),
        ("text", about % "road*"),
        ("fuzzy", about % "%medcal%"),
        ("either", (age < 13) | (about == "lung cancer")),
        ("both", (age > 13) & (job == "doctor") & (about != "skin")),
        ("near", Geo("place") == GeoRadius(-110, 37, 500, "km")),
    ]:
        found = index.query(FilterQuery(expression, ["name", "age"], sort_by="age"))
        print(title, index.query(CountQuery(expression)), *[f"{row['name']}:{row['age']}" for row in found])
    query = FilterQuery(age > 0, ["name"], num_results=2, sort_by=("age", "DESC"))
    query.paging(2, 3)
    show("page", index.query(query), "name")
    pages = list(index.paginate(FilterQuery("*", ["name"], sort_by="age"), page_size=4))
    print("pages", [[row["name"] for row in page] for page in pages])


def vectors(index):
    near = [0.1, 0.1, 0.5]
    names = ("name", "vector_distance")
    query = VectorQuery(near, "face", ["name", "job"], num_results=4)
    show("nearest", sorted(index.query(query), key=lambda row: row["name"]), "name", "job", "vector_distance")
    query = VectorQuery(near, "face", ["name"], filter_expression=Tag("job") == "doctor", num_results=5)
    show("of doctors", index.query(query), *names)
    for policy in ["ADHOC_BF", "BATCHES"]:
        query = VectorQuery([0.5, 0.5], "voice", ["name"], Num("age") > 13, num_results=3, hybrid_policy=policy)
        show(policy, index.query(query), *names)
    query = VectorRangeQuery(near, "face", ["name"], distance_threshold=0.15, num_results=9)
    show("within", sorted(index.query(query), key=lambda row: (row["vector_distance"], row["name"])), *names)
    query.set_distance_threshold(0.001)
    query.set_filter(Num("age") > 15)
    show("closer", index.query(query), *names)
    face = Vector(vector=near, field_name="face", max_distance=1.0)
    voice = Vector(vector=[0.5, 0.5], field_name="voice", weight=0.5, max_distance=0.3)
    query = MultiVectorQuery([face, voice], return_fields=["name"], num_results=4)
    show("two vectors", index.query(query), "name", "distance_0", "distance_1", "combined_score")


def texts(index):
    query = TextQuery("skin cancer", "about", text_scorer="BM25STD", return_fields=["name"], return_score=False)
    print("text", [row["name"] for row in index.query(query)])
    query = TextQuery("medical roads", "about", "BM25STD", Tag("job") != "dentist", return_fields=["name"])
    query.set_text_weights({"roads": 3})
    print("weights", sorted(row["name"] for row in index.query(query)))
    query = AggregateHybridQuery("medical cancer", "about", [0.1, 0.1, 0.5], "face", "BM25STD", return_fields=["name"])
    show("text and vector", index.query(query), "name", "vector_similarity")
    batches = index.batch_query([FilterQuery(Num("age") < 13, ["name"]), FilterQuery(Num("age") > 99, ["name"])])
    print("batch", [[row["name"] for row in batch] for batch in batches])


def indexes():
    for kind in ["hash", "json"]:
        index = SearchIndex.from_dict(schema(kind), redis_client=client)
        index.create(overwrite=True, drop=True)
        print(kind, index.exists(), index.load(rows(kind), id_field="name"))
        filters(index)
        vectors(index)
        texts(index)
        known = SearchIndex.from_existing(index.name, redis_client=client).schema
        print("known", sorted((name, str.lower(field.type)) for name, field in known.fields.items()))
        info = index.info()
        print("info", info["num_docs"], info["hash_indexing_failures"])
        print("fetched", index.fetch("tim")["about"], index.drop_keys([f"{kind}:tim"]), index.query(CountQuery("*")))
        print("expired", index.expire_keys(f"{kind}:joe", 100), 0 < client.ttl(f"{kind}:joe") <= 100)
        print("cleared", index.clear(), index.exists())
        index.delete()
        print("gone", index.exists())


def cache(vectorizer):
    fields = [{"name": "user", "type": "tag"}, {"name": "year", "type": "numeric"}]
    kept = SemanticCache("answers", 0.2, vectorizer=vectorizer, filterable_fields=fields, redis_client=client)
    kept.store("what is the capital of france", "Paris", filters={"user": "a", "year": 2020})
    kept.store("what is the capital of italy", "Rome", metadata={"by": "b"}, filters={"user": "b", "year": 2021})
    for asked in ["what is the capital of france", "what was the capital of italy", "who wrote hamlet"]:
        show(asked, kept.check(asked, num_results=2), "response", "prompt", "vector_distance", "metadata")
    found = kept.check("what is the capital of france", num_results=3, filter_expression=Tag("user") == "b")
    show("of b", found, "response", "user", "year")
    key = kept.store("a new one", "short", ttl=60)
    print("ttl", 0 < client.ttl(key) <= 60)
    kept.drop(keys=[key])
    print("dropped", kept.check("a new one"), kept.index.query(CountQuery("*")))
    kept.clear()
    print("cleared", kept.check("what is the capital of france"))
    kept.delete()


def router(vectorizer):
    routes = [
        Route(name="greeting", references=["hello there", "good morning"], distance_threshold=0.5),
        Route(name="farewell", references=["good bye", "see you later"], distance_threshold=0.4),
    ]
    way = SemanticRouter("ways", routes, vectorizer, redis_client=client, overwrite=True)
    for said in ["hello there", "see you", "good day to all", "engines and brakes"]:
        match = way(said)
        print("route", said, "->", match.name, match.distance and abs(round(match.distance, 4)))
    many = way.route_many("good morning and good bye", max_k=2, distance_threshold=0.9, aggregation_method="min")
    print("many", sorted((match.name, round(match.distance, 4)) for match in many))
    way.add_route_references("farewell", ["engines and brakes"])
    print("learnt", way("engines and brakes").name, len(way.get_route_references("farewell")))
    print("kept", client.json().get("ways:route_config", "$.routes[*].name"))
    way.remove_route("greeting")
    print("forgot", way("hello there").name)
    way.delete()


def history(vectorizer):
    talk = MessageHistory("talk", redis_client=client)
    talk.add_messages([{"role": "user", "content": "hello"}, {"role": "llm", "content": "who is there"}])
    talk.store("the weather?", "rain")
    talk.add_message({"role": "tool", "content": "21", "tool_call_id": "t1"}, session_tag="other")
    print("recent", talk.get_recent(top_k=3), talk.get_recent(raw=False, role="user"))
    print("other", talk.get_recent(session_tag="other", as_text=True), talk.count() if hasattr(talk, "count") else 4)
    talk.drop()
    print("dropped", [message["content"] for message in talk.get_recent()])
    talk.delete()
    near = SemanticMessageHistory("near", redis_client=client, vectorizer=vectorizer, distance_threshold=0.5)
    near.store("what is the weather in rome", "sunny in rome")
    near.store("who wrote hamlet", "a man from stratford")
    print("relevant", near.get_relevant("is the weather in rome fine"), near.get_relevant("engines"))
    near.delete()


def main():
    vectorizer = CustomTextVectorizer(embed=embed)
    indexes()
    cache(vectorizer)
    router(vectorizer)
    history(vectorizer)
