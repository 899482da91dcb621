"""SQLAlchemy: its ORM and its core, on psycopg and psycopg2."""
import os

from sqlalchemy import Integer, String, create_engine, func, insert, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Entry(Base):
    __tablename__ = "log"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    item: Mapped[int]
    what: Mapped[str] = mapped_column(String)


for driver in ("psycopg", "psycopg2"):
    engine = create_engine(f"postgresql+{driver}://app@127.0.0.1:{os.environ['PGPORT']}/postgres", pool_pre_ping=True)
    with Session(engine) as session:
        session.add_all([Entry(item=n, what="orm") for n in range(30)])
        session.commit()
        for entry in session.scalars(select(Entry).where(Entry.what == "orm").limit(10)):
            entry.what = "changed"
        session.commit()
        session.scalar(select(func.count()).select_from(Entry))
        session.rollback()
    with engine.connect() as connection:
        rows = connection.execution_options(stream_results=True, max_row_buffer=50).execute(text("SELECT id FROM items"))
        for _ in rows.yield_per(50):
            pass
        connection.rollback()
    with engine.connect() as connection:
        connection.execute(insert(Entry), [{"item": n, "what": "core"} for n in range(10)])
        connection.execute(update(Entry).where(Entry.item == 3).values(what="updated"))
        connection.commit()
        try:
            with connection.begin_nested():
                connection.execute(text("SELECT 1 / :n"), {"n": 0})
            raise AssertionError("no failure")
        except DBAPIError:
            pass
    engine.dispose()
