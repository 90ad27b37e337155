package tideover;

/** Another cluster than the one that a run reads answers under its name. */
class WrongCluster extends IllegalStateException {
  private static final long serialVersionUID = 1;

  WrongCluster(String text) {
    super(text);
  }
}
