"""Redis OM for Python: models in hashes and in JSON, found by comparisons, sets, texts and places, sorted and paged."""
import datetime
import os

os.environ["REDIS_OM_URL"] = f"redis://localhost:{os.environ['REDIS_PORT']}?decode_responses=True"

from redis_om import (  # noqa: E402
    Coordinates,
    EmbeddedJsonModel,
    Field,
    GeoFilter,
    HashModel,
    JsonModel,
    KNNExpression,
    Migrator,
    NotFoundError,
    VectorFieldOptions,
    get_redis_connection,
)
import numpy as np  # noqa: E402

client = get_redis_connection()


class Customer(HashModel, index=True):
    name: str = Field(index=True, sortable=True)
    email: str = Field(index=True)
    age: int = Field(index=True, sortable=True)
    since: datetime.date = Field(index=True, sortable=True)
    bio: str = Field(index=True, full_text_search=True, default="")
    active: bool = Field(index=True, default=True)

    class Meta:
        global_key_prefix = "om"


class Address(EmbeddedJsonModel, index=True):
    city: str = Field(index=True)
    code: int = Field(index=True, sortable=True)
    place: Coordinates = Field(index=True)


class Member(JsonModel, index=True):
    name: str = Field(index=True, full_text_search=True, sortable=True)
    rank: float = Field(index=True, sortable=True)
    tags: list[str] = Field(index=True)
    address: Address
    about: str = Field(index=True, full_text_search=True)

    class Meta:
        global_key_prefix = "om"


class Picture(JsonModel, index=True):
    title: str = Field(index=True)
    shape: list[float] = Field(
        vector_options=VectorFieldOptions.flat(
            type=VectorFieldOptions.TYPE.FLOAT32,
            dimension=2,
            distance_metric=VectorFieldOptions.DISTANCE_METRIC.L2,
        )
    )
    score: float | None = None

    class Meta:
        global_key_prefix = "om"


def names(query):
    return [found.name for found in query.all()]


def customers():
    rows = [
        ("ann", "ann@a.example", 38, 2001, "likes the sea and ships", True),
        ("bob", "bob@b.example", 25, 2010, "walks by the sea", False),
        ("cid", "cid@c.example", 61, 1999, "reads, sings", True),
        ("dan o'x", "dan-2@d.example", 25, 2020, "", True),
    ]
    kept = []
    for name, email, age, year, bio, active in rows:
        since = datetime.date(year, 1, 2)
        kept.append(Customer(name=name, email=email, age=age, since=since, bio=bio, active=active).save())
    age, name = Customer.age, Customer.name
    for title, query in [
        ("all", Customer.find()),
        ("equal", Customer.find(name == "ann")),
        ("escaped", Customer.find(name == "dan o'x")),
        ("email", Customer.find(Customer.email == "dan-2@d.example")),
        ("unequal", Customer.find(name != "bob")),
        ("less", Customer.find(age < 38)),
        ("least", Customer.find(age >= 38)),
        ("among", Customer.find(name << ["ann", "cid", "none"])),
        ("not among", Customer.find(name >> ["ann", "cid"])),
        ("both", Customer.find((age == 25) & (Customer.active == True))),  # noqa: E712
        ("either", Customer.find((age > 60) | (name == "bob"))),
        ("not", Customer.find(~(age == 25))),
        ("text", Customer.find(Customer.bio % "sea")),
        ("stem", Customer.find(Customer.bio % "ship")),
        ("begins", Customer.find(name.startswith("bo"))),
        ("ends", Customer.find(Customer.email.endswith("c.example"))),
        ("contains", Customer.find(Customer.email.contains("@a"))),
        ("since", Customer.find(Customer.since > datetime.date(2005, 1, 1))),
    ]:
        print(title, query.count(), names(query.sort_by("name")))
    print("sorted", names(Customer.find().sort_by("-since")), names(Customer.find().sort_by("since")))
    print("page", [found.name for found in Customer.find().sort_by("name").page(1, 2)], Customer.find().sort_by("name")[3].name)
    print("first", Customer.find(age == 25).sort_by("-name").first().name)
    again = Customer.get(kept[0].pk)
    print("get", again.model_dump(exclude={"pk"}) == kept[0].model_dump(exclude={"pk"}), client.type(again.key()))
    again.update(age=40)
    print("updated", names(Customer.find(age == 40)), names(Customer.find(age == 38)))
    again.expire(100)
    print("ttl", 0 < client.ttl(again.key()) <= 100)
    print("values", Customer.find(age > 30).sort_by("name").values("name", "age").all())
    print("deleted", Customer.find(age == 25).delete(), names(Customer.find().sort_by("name")))
    try:
        Customer.find(name == "none").first()
    except NotFoundError:
        print("none")


def members():
    for name, rank, tags, city, code, place, about in [
        ("Ann Lee", 3.5, ["red", "blue"], "Rome", 10, (41.9, 12.5), "sails ships on the sea"),
        ("Bob Lee", 1.25, ["blue"], "Oslo", 20, (59.9, 10.7), "climbs mountains"),
        ("Cid Roe", 9.0, ["green", "a b"], "New York", 30, (40.7, -74.0), "sings of the seas"),
    ]:
        where = Address(city=city, code=code, place=Coordinates(latitude=place[0], longitude=place[1]))
        Member(name=name, rank=rank, tags=tags, address=where, about=about).save()
    for title, query in [
        ("rank", Member.find(Member.rank > 2)),
        ("tag", Member.find(Member.tags << "blue")),
        ("tags", Member.find(Member.tags << ["green", "red"])),
        ("spaced", Member.find(Member.tags << "a b")),
        ("city", Member.find(Member.address.city == "New York")),
        ("code", Member.find((Member.address.code >= 10) & (Member.address.code < 30))),
        ("text", Member.find(Member.about % "sea")),
        ("words", Member.find(Member.name % "lee")),
        ("near", Member.find(Member.address.place == GeoFilter(longitude=12, latitude=42, radius=500, unit="km"))),
        ("mixed", Member.find(((Member.rank < 2) | (Member.tags << "green")) & ~(Member.address.city == "Oslo"))),
    ]:
        print(title, names(query.sort_by("name")))
    print("sorted", names(Member.find().sort_by("-rank")))
    member = Member.find(Member.address.city == "Oslo").first()
    member.update(address__code=99)
    print("updated", names(Member.find(Member.address.code == 99)), client.json().get(member.key(), "$.address.code"))
    Member.delete(member.pk)
    print("deleted", names(Member.find().sort_by("name")))


def pictures():
    for title, shape in [("a", [0.0, 0.0]), ("b", [1.0, 1.0]), ("c", [3.0, 0.0])]:
        Picture(title=title, shape=shape).save()
    wanted = np.array([1.0, 0.0], dtype=np.float32).tobytes()
    near = KNNExpression(k=2, vector_field=Picture.shape, score_field=Picture.score, reference_vector=wanted)
    print("near", sorted((found.title, found.score) for found in Picture.find(knn=near).all()))
    found = Picture.find((Picture.title == "a") | (Picture.title == "c"), knn=near).all()
    print("among", sorted((one.title, one.score) for one in found))


def main():
    Migrator().run()
    print("indexes", sorted(client.execute_command("FT._LIST")))
    customers()
    members()
    pictures()
    Migrator().run()
    print("kept", Customer.find().count(), Member.find().count(), Picture.find().count())
