"""langchain-redis: vector stores of hashes and of JSON with filters, the history of a chat with search, and caches of
answers by their text and by their meaning."""
import os
import zlib

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.outputs import Generation
from langchain_redis import RedisCache, RedisChatMessageHistory, RedisConfig, RedisSemanticCache, RedisVectorStore
from redis import Redis
from redisvl.query.filter import Num, Tag, Text

URL = f"redis://localhost:{os.environ['REDIS_PORT']}"
client = Redis.from_url(URL)

BOOKS = [
    ("the whale and the sea", "novel", 1851, "melville"),
    ("the old man and the sea", "novel", 1952, "hemingway"),
    ("a handbook of the birds of the sea", "science", 1990, "harrison"),
    ("on the origin of species", "science", 1859, "darwin"),
    ("songs of the road", "poems", 1911, "doyle"),
]


class Words(Embeddings):
    """The words of a text, each in a place by its checksum."""

    def embed_query(self, text):
        vector = [0.01] * 48
        for word in text.lower().split():
            vector[zlib.crc32(word.encode()) % 48] += 1
        return vector

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


def show(title, documents):
    print(title)
    for document, *scores in documents:
        kept = [document.metadata.get(name) for name in ("kind", "year", "author")]
        print("   ", document.page_content, kept, *[abs(round(score, 4)) for score in scores])


def store(kind):
    config = RedisConfig(
        index_name=f"books-{kind}",
        key_prefix=f"books-{kind}",
        redis_url=URL,
        storage_type=kind,
        distance_metric="COSINE",
        metadata_schema=[
            {"name": "kind", "type": "tag"},
            {"name": "year", "type": "numeric"},
            {"name": "author", "type": "text"},
        ],
    )
    books = RedisVectorStore(Words(), config=config)
    facts = [{"kind": kind, "year": year, "author": author} for _, kind, year, author in BOOKS]
    keys = books.add_texts([title for title, *_ in BOOKS], facts, keys=[author for *_, author in BOOKS])
    print(kind, sorted(keys), client.exists(f"books-{kind}:darwin"))
    show("nearest", books.similarity_search_with_score("the sea and the whale", k=3))
    for title, condition in [
        ("novels", Tag("kind") == "novel"),
        ("old", Num("year") < 1900),
        ("authors", Text("author") % "darw* | doy*"),
        ("both", (Tag("kind") == ["science", "poems"]) & (Num("year") > 1900)),
        ("none", Tag("kind") == "plays"),
    ]:
        show(title, books.similarity_search_with_score("birds of the sea", k=4, filter=condition))
    near = books.similarity_search_with_score("birds of the sea", k=2, return_all=True)
    print("by vector", [row.page_content for row in books.similarity_search_by_vector(Words().embed_query("road"), k=1)])
    print("whole", [row[0].page_content for row in near])
    varied = books.max_marginal_relevance_search("the sea", k=2, fetch_k=4, lambda_mult=0.2)
    print("varied", [row.page_content for row in varied])
    found = books.as_retriever(search_kwargs={"k": 1, "filter": Num("year") == 1859}).invoke("sea")
    print("retrieved", [row.page_content for row in found])
    print("by ids", sorted(row.page_content for row in books.get_by_ids(["darwin", "doyle"])))
    books.add_documents([Document(page_content="the sea", metadata={"kind": "poems", "year": 2000, "author": "x"})])
    show("added", books.similarity_search_with_score("the sea", k=1))
    print("deleted", books.delete(["melville"]), client.exists(f"books-{kind}:melville"))
    again = RedisVectorStore.from_existing_index(f"books-{kind}", embedding=Words(), redis_url=URL)
    print("existing", [row.page_content for row in again.similarity_search("the old man", k=1)])
    books.index.delete(drop=True)
    print("gone", client.execute_command("FT._LIST"), client.exists(f"books-{kind}:darwin"))


def history():
    chat = RedisChatMessageHistory("first", redis_url=URL, ttl=100)
    chat.add_messages([SystemMessage(content="be brief"), HumanMessage(content="where are the whales?")])
    chat.add_message(AIMessage(content="in the sea, with the birds"))
    other = RedisChatMessageHistory("second", redis_url=URL)
    other.add_message(HumanMessage(content="the sea is wide"))
    print("messages", [(message.type, message.content) for message in chat.messages], len(chat), len(other))
    for words in ["sea", "whales", "bird*", "nothing"]:
        print("search", words, sorted((row["type"], row["content"]) for row in chat.search_messages(words)))
    lives = [0 < client.ttl(key) <= 100 for key in client.scan_iter("chat:first:*")]
    print("ttl", lives)
    chat.clear()
    print("cleared", len(chat), len(other), [message.content for message in other.messages])
    other.delete()


def caches():
    answers = [Generation(text="42")]
    kept = RedisCache(redis_url=URL, ttl=50)
    kept.update("the question", "model", answers)
    print("cache", kept.lookup("the question", "model"), kept.lookup("the question", "another"), kept.lookup("what", "model"))
    kept.clear()
    print("cleared", kept.lookup("the question", "model"))
    near = RedisSemanticCache(Words(), redis_url=URL, distance_threshold=0.2, name="near")
    near.update("where are the whales of the sea", "model", answers)
    for asked in ["where are the whales of the sea", "where are whales of the sea", "who is there"]:
        print("near", asked, near.lookup(asked, "model"), near.lookup(asked, "another"))
    near.clear()
    print("cleared", near.lookup("where are the whales of the sea", "model"))


def main():
    for kind in ["hash", "json"]:
        store(kind)
    history()
    caches()
