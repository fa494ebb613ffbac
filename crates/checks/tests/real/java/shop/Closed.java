package shop;

import java.util.Objects;

public class Closed {
    static String open(String till) {
        return Objects.requireNonNull(till, "no till");
    }

    public static void main(String[] arguments) {
        try {
            open(null);
        } catch (NullPointerException reason) {
            throw new IllegalStateException("the shop is closed", reason);
        }
    }
}
