// pgjdbc: all of its query modes, fetch sizes, batches, callable statements, COPY, savepoints, failures.

import java.io.StringReader;
import java.io.StringWriter;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import org.postgresql.PGConnection;

public class WithJdbc {
  public static void main(String[] args) throws Exception {
    String[] modes = {"extended", "extendedForPrepared", "extendedCacheEverything", "simple"};
    for (String mode : modes) {
      String url = "jdbc:postgresql://127.0.0.1:" + System.getenv("PGPORT") + "/postgres?user=app&ApplicationName="
          + System.getenv("PGAPPNAME") + "&preferQueryMode=" + mode;
      try (Connection c = DriverManager.getConnection(url)) {
        queries(c);
        transaction(c, mode);
        if (!mode.equals("simple")) calls(c); // it does not know parameters that are returned
        failures(c);
      }
    }
  }

  static void queries(Connection c) throws Exception {
    try (PreparedStatement s = c.prepareStatement("SELECT id, name FROM items WHERE id <= ?")) {
      for (int n = 0; n < 10; n++) { // prepared from the fifth on
        s.setInt(1, n);
        try (ResultSet r = s.executeQuery()) {
          int rows = 0;
          while (r.next()) rows++;
          if (rows != n) throw new Exception(rows + " rows");
        }
        Thread.sleep(5);
      }
    }
    try (PreparedStatement s = c.prepareStatement("INSERT INTO log (item, what) VALUES (?, ?)")) {
      for (int n = 0; n < 20; n++) {
        s.setInt(1, n);
        s.setString(2, n % 2 == 0 ? "it's" : null);
        s.addBatch();
      }
      s.executeBatch();
    }
    try (PreparedStatement s = c.prepareStatement("INSERT INTO log (item, what) VALUES (?, ?)", Statement.RETURN_GENERATED_KEYS)) {
      s.setInt(1, 1);
      s.setString(2, "keys");
      s.executeUpdate();
    }
    try (Statement s = c.createStatement()) {
      s.execute("SELECT 1; SELECT id FROM items WHERE id < 4; UPDATE items SET ok = true WHERE id = 3");
      s.execute("SELECT pg_sleep(0.02)");
    }
    PGConnection p = c.unwrap(PGConnection.class);
    p.getCopyAPI().copyIn("COPY log (item, what) FROM STDIN", new StringReader("1\tcopied\n2\tcopied\n"));
    p.getCopyAPI().copyOut("COPY (SELECT id FROM items WHERE id < 50) TO STDOUT", new StringWriter());
  }

  static void transaction(Connection c, String mode) throws Exception {
    c.setAutoCommit(false);
    try (PreparedStatement s = c.prepareStatement("SELECT id FROM items WHERE id > ? ORDER BY id")) {
      s.setFetchSize(100);
      for (int n = 0; n < 2; n++) {
        s.setInt(1, n);
        try (ResultSet r = s.executeQuery()) {
          while (r.next()) {
            if (r.getRow() % 100 == 0) Thread.sleep(5);
          }
        }
      }
      s.setInt(1, 7);
      try (ResultSet r = s.executeQuery()) { // a portal that is not read to its end
        r.next();
        Thread.sleep(30);
      }
    }
    Savepoint savepoint = c.setSavepoint("s");
    try (PreparedStatement s = c.prepareStatement("SELECT 1 / ?::int")) {
      s.setInt(1, 0);
      s.executeQuery();
      throw new Exception("no failure");
    } catch (SQLException e) {
      c.rollback(savepoint);
    }
    try (Statement s = c.createStatement()) {
      s.executeUpdate("UPDATE items SET price = price + 1 WHERE id < 10");
    }
    Thread.sleep(30);
    c.commit();
    c.setAutoCommit(true);
  }

  static void calls(Connection c) throws Exception {
    try (CallableStatement s = c.prepareCall("{? = call nested(?)}")) {
      s.registerOutParameter(1, Types.INTEGER);
      s.setInt(2, 10);
      s.execute();
    }
    try (PreparedStatement s = c.prepareStatement("CALL add(?, ?)")) {
      s.setInt(1, 1);
      s.setString(2, "jdbc");
      s.execute();
    }
    c.setAutoCommit(false);
    try (PreparedStatement s = c.prepareStatement("SELECT * FROM several('c1', 'c2')")) {
      s.executeQuery();
    }
    try (Statement s = c.createStatement()) {
      s.execute("FETCH ALL FROM c2");
    }
    c.commit();
    c.setAutoCommit(true);
  }

  static void failures(Connection c) throws Exception {
    for (String text : new String[] {"SELEC 1", "SELECT * FROM nowhere", "SELECT fails(3)", "INSERT INTO deferred VALUES (1)"}) {
      try (Statement s = c.createStatement()) {
        s.execute(text);
      } catch (SQLException e) {
        continue;
      }
      throw new Exception(text + " did not fail");
    }
  }
}
